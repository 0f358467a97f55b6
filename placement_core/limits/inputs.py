"""Parsing and validation of the fields of new limits and of changes.

The HTTP API validates bodies against its own schemas; other callers (commands, tests,
embedders) rely on the checks here. Nothing here reads the database.
Source: spec limits §2, "Validation".
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

from placement_core.db import texts
from placement_core.limits import errors

SMALLEST, GREATEST = -1, 2147483647
_LONGEST_TEXT = 255
_LONGEST_ID = 64
#: In bytes of UTF-8: what MySQL's TEXT holds.
_LONGEST_DESCRIPTION = 65535


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """The identity of a registered limit."""

    service_id: str
    region_id: str | None
    resource_name: str


def parse_key(item: Mapping[str, Any]) -> Key:
    """Return the service, region and resource of an item."""
    return Key(parse_service_id(item), parse_region_id(item), parse_resource_name(item))


def parse_service_id(item: Mapping[str, Any]) -> str:
    """Return the service of an item."""
    return parse_text(item, "service_id", longest=_LONGEST_ID)


def parse_region_id(item: Mapping[str, Any]) -> str | None:
    """Return the region of an item, which may be missing or null."""
    return None if item.get("region_id") is None else _parse_visible_text(item, "region_id")


def parse_node(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the node of an item, as ("project" | "domain", id).

    :raises errors.InvalidLimit: the item does not have exactly one of the two.
    """
    fields = [name for name in ("project_id", "domain_id") if item.get(name) is not None]
    if len(fields) != 1:
        raise errors.InvalidLimit(
            "project_id", "exactly one of project_id and domain_id has to be given")
    return fields[0].removesuffix("_id"), parse_text(item, fields[0], longest=_LONGEST_ID)


def parse_value(item: Mapping[str, Any], field: str) -> int:
    """Return the value of a limit.

    :raises errors.InvalidLimit: not an integer from -1 to 2147483647. 5.0 is one.
    """
    value = item.get(field)
    if (isinstance(value, bool) or not isinstance(value, (int, float))
            or value != value // 1 or not SMALLEST <= value <= GREATEST):
        raise errors.InvalidLimit(
            field, f"{value!r} is not an integer from {SMALLEST} to {GREATEST}")
    return int(value)


def parse_project_id(item: Mapping[str, Any]) -> str:
    """Return the project of an item that may not have a domain instead."""
    return parse_text(item, "project_id", longest=_LONGEST_ID)


def parse_resource_name(item: Mapping[str, Any]) -> str:
    """Return the name of an item's resource."""
    return _parse_visible_text(item, "resource_name")


def parse_description(item: Mapping[str, Any]) -> str | None:
    """Return an item's description; it may be missing, null or empty."""
    text = item.get("description")
    if text is None:
        return None
    if (not isinstance(text, str) or not texts.is_storable(text)
            or len(text.encode()) > _LONGEST_DESCRIPTION):
        raise errors.InvalidLimit(
            "description",
            f"expected a text of at most {_LONGEST_DESCRIPTION} bytes, without NUL")
    return text


def parse_text(
    item: Mapping[str, Any], field: str, *, longest: int = _LONGEST_TEXT
) -> str:
    """Return a field that has to be text whose length is within bounds."""
    text = item.get(field)
    if (not isinstance(text, str) or not 1 <= len(text) <= longest
            or not texts.is_storable(text)):
        raise errors.InvalidLimit(
            field, f"expected a text of 1 to {longest} characters, without NUL")
    return text


def parse_id(item: Mapping[str, Any]) -> str:
    """Return the id of a new limit: a random one, unless the item has one."""
    if item.get("id") is None:
        return uuid.uuid4().hex
    return parse_text(item, "id", longest=_LONGEST_ID)


def _parse_visible_text(item: Mapping[str, Any], field: str) -> str:
    text = parse_text(item, field)
    if not text.strip():
        raise errors.InvalidLimit(field, "it is blank")
    return text
