"""The grammar of query parameters that more than one route takes.

Source: spec placement_api §4.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from placement_core.http import validation, versions
from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import errors
from placement_core.placement.candidates import requests

_BAD_RESOURCES = (
    "Badly formed resources parameter. Expected resources query string parameter in form: "
    "?resources=VCPU:2,MEMORY_MB:1024. Got: {}.")
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
#: No inventory has room for more: amounts above it are alike.
_ENDLESS = 2 ** 62


def parse_resources(text: str) -> dict[str, int]:
    """Parse ``CLASS:N,CLASS:N``; the last amount of a class counts.

    :raises errors.Invalid: misformed, or an amount below 1.
    """
    if not text.strip():
        raise errors.BadQuery(_BAD_RESOURCES.format("empty string"))
    amounts = {}
    for item in text.split(","):
        name, colon, amount = item.partition(":")
        if not colon or ":" in amount:
            raise errors.BadQuery(_BAD_RESOURCES.format(item))
        amounts[name] = _parse_amount(name, amount)
    return amounts


def _parse_amount(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise errors.BadQuery(
            f"Requested resource {name} expected positive integer amount. Got: {text}.")
    digits = text.strip()
    # A number of thousands of digits is not worth reading (nor does int()).
    amount = int(digits) if len(digits) < 20 else _ENDLESS * (-1 if digits[0] == "-" else 1)
    if amount < 1:
        raise errors.BadQuery(
            f"Requested resource {name} requires amount >= 1. Got: {digits}.")
    return min(amount, _ENDLESS)


def parse_traits(texts: Sequence[str], version: Version) -> requests.TraitFilter:
    """Parse the values of a ``required`` parameter.

    Below 1.39 only the last of several counts.

    :raises errors.Invalid: misformed, or of a later microversion.
    """
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in texts if version >= mv.ANY_TRAITS else texts[-1:]:
        if text.startswith("in:"):
            required.append(_parse_any_traits(text, version))
        else:
            names, banned = parse_trait_names(text, forbidding=version >= mv.FORBIDDEN_TRAITS)
            required += [frozenset((name,)) for name in names]
            forbidden.update(banned)
    return requests.TraitFilter(tuple(required), frozenset(forbidden))


def _parse_any_traits(text: str, version: Version) -> frozenset[str]:
    """Parse ``in:A,B``: any one of these."""
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if version < mv.ANY_TRAITS:
        raise validation.InvalidQuery(
            f"The format '{form}' only supported since microversion "
            f"{versions.format_version(mv.ANY_TRAITS)}. Got: {text}")
    names = [name.strip() for name in text.removeprefix("in:").split(",")]
    if not all(names):
        raise validation.InvalidQuery(
            f"Expected 'required' parameter value of the form: {form}. "
            f"Got an empty trait in: {text}")
    if any(name.startswith("!") for name in names):
        raise validation.InvalidQuery(
            f"The format '{form}' does not support forbidden traits. Got: {text}")
    return frozenset(names)


def parse_trait_names(text: str, *, forbidding: bool) -> tuple[list[str], list[str]]:
    """Parse ``A,!B`` into (required, forbidden); several ``!`` count as one.

    :param forbidding: whether ``!`` is allowed.
    """
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if forbidding else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"Expected 'required' parameter value of the form: {form}."
    names = [name.strip() for name in text.split(",")]
    required = [name for name in names if not name.startswith("!")]
    forbidden = [name.lstrip("!") for name in names if name.startswith("!")]
    if not all(required) or not all(forbidden):
        raise validation.InvalidQuery(f"{expected} Got an empty trait in: {text}")
    if forbidden and not forbidding:
        raise validation.InvalidQuery(f"{expected} Got: {text}")
    return required, forbidden


def parse_aggregates(
    texts: Sequence[str], version: Version, *, suffix: str = ""
) -> requests.AggregateFilter:
    """Parse the values of a ``member_of`` parameter.

    :raises errors.Invalid: misformed, or of a later microversion.
    """
    if len(texts) > 1 and version < mv.MEMBER_OF_REPEATED:
        raise errors.BadQuery(f"Multiple member_of{suffix} parameters are not supported")
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in texts:
        banned, named = _parse_aggregates(text)
        if not banned:
            required.append(named)
        elif version >= mv.FORBIDDEN_AGGREGATES:
            forbidden |= named
        else:
            raise errors.BadQuery(
                f"Forbidden member_of{suffix} parameters are not supported in the specified "
                "microversion")
    return requests.AggregateFilter(tuple(required), frozenset(forbidden))


def _parse_aggregates(text: str) -> tuple[bool, frozenset[str]]:
    """Parse ``A``, ``in:A,B``, ``!A`` or ``!in:A,B`` into (forbidden?, uuids)."""
    banned = text.startswith("!")
    bare = text.removeprefix("!")
    several = bare.startswith("in:")
    if "," in bare and not several:
        raise errors.BadQuery(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword "
            f"using the valid microversion. Got: {text}")
    uuids = bare.removeprefix("in:").split(",") if several else [bare]
    for uuid in uuids:
        if not validation.is_uuid_like(uuid):
            raise validation.InvalidQuery(
                f"Expected 'member_of' parameter to contain valid UUID(s). Got: {uuid}")
    return banned, frozenset(uuids)


def parse_tree(text: str) -> str:
    """Parse an ``in_tree`` parameter: the uuid of any provider of the tree.

    :raises validation.InvalidQuery: not a uuid.
    """
    uuid = text.strip()
    if not validation.is_uuid_like(uuid):
        raise validation.InvalidQuery(
            f"Expected 'in_tree' parameter to be a format of uuid. Got: {text}")
    return uuid
