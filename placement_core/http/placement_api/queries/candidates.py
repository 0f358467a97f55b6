"""GET /allocation_candidates: its query string becomes a ``CandidatesRequest``.

Source: spec placement_api §4.1. Differs: every value of ``limit`` and
``group_policy`` is checked, not only the last.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from oslo_config import cfg

from placement_core.http import validation
from placement_core.http.operations import Ladder, Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import errors, schemas, values
from placement_core.placement.candidates import requests
from placement_core.placement.candidates.errors import TooManyGroups

Query = Mapping[str, list[str]]

_KEY: Ladder[re.Pattern[str]] = Ladder({
    since: re.compile(f"({'|'.join(schemas.GROUPED)})({suffix})?")
    for since, suffix in schemas.SUFFIXES.rungs.items()
})
#: The parameters that concern the request as a whole.
_WHOLE = {"limit", "group_policy", "root_required", "same_subtree"}


def parse(
    query: Query, version: Version, most_groups: int | None = None
) -> requests.CandidatesRequest:
    """Return what a query string asks for.

    :param most_groups: how many groups a request may have; None: any number.
    :raises TooManyGroups: it has more.
    :raises errors.Invalid: a value is misformed, or parameters contradict.
    """
    limit = _parse_limit(query.get("limit", ()))
    policy = _parse_group_policy(query.get("group_policy", ()))
    root_traits = _parse_root_traits(query.get("root_required", ()))
    subtrees = _parse_same_subtree(query.get("same_subtree", ()))
    groups = _parse_groups(query, version)
    if most_groups is not None and len(groups) > most_groups:
        raise TooManyGroups(most_groups)
    if version >= mv.SAME_SUBTREE:
        _check_subtrees(groups, frozenset().union(*subtrees))
    else:
        _check_orphans(groups)
    if version >= mv.FORBIDDEN_TRAITS:
        _check_conflicts(groups)
    if policy is None and sum(1 for group in groups if group.suffix) > 1:
        raise errors.BadQuery(
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.')
    return requests.CandidatesRequest(
        groups=tuple(groups),
        isolate=policy == "isolate",
        root_traits=root_traits,
        same_subtree=subtrees,
        limit=limit,
        nested=version >= mv.NESTED_CANDIDATES,
    )


def parse_bounded(
    query: Query, version: Version, options: cfg.ConfigOpts.GroupAttr
) -> requests.CandidatesRequest:
    """Return what a query string asks for, within the bounds of a site.

    :param options: those of ``[placement]``.
    :raises TooManyGroups: as ``parse``.
    :raises errors.Invalid: as ``parse``.
    """
    request = parse(query, version, options.max_request_groups)
    return dataclasses.replace(request, most_dead_ends=options.max_search_dead_ends)


def _parse_limit(texts: Sequence[str]) -> int | None:
    """Return the first limit; one that no answer reaches is none."""
    for text in texts:
        if not re.fullmatch("[1-9][0-9]*", text):
            raise validation.InvalidQuery(f"'{text}' does not match '{schemas.LIMIT_PATTERN}'")
    return int(texts[0]) if texts and len(texts[0]) < 19 else None


def _parse_group_policy(texts: Sequence[str]) -> str | None:
    for text in texts:
        if text not in schemas.GROUP_POLICIES:
            raise validation.InvalidQuery(f"'{text}' is not one of {schemas.GROUP_POLICIES}")
    return texts[0] if texts else None


def _parse_root_traits(texts: Sequence[str]) -> requests.TraitFilter:
    if not texts:
        return requests.TraitFilter()
    if len(texts) > 1:
        raise errors.DuplicateKey("Query parameter 'root_required' may be specified only once.")
    if texts[0].startswith("in:"):
        raise validation.InvalidQuery(
            f"'root_required' does not support the 'in:' format. Got: {texts[0]}")
    required, forbidden = values.parse_trait_names(texts[0], forbidding=True)
    conflicts = sorted(set(required) & set(forbidden))
    if conflicts:
        raise errors.BadValue(
            "Conflicting required and forbidden traits found in root_required: "
            f"{', '.join(conflicts)}")
    return requests.TraitFilter(
        tuple(frozenset((name,)) for name in required), frozenset(forbidden))


def _parse_same_subtree(texts: Iterable[str]) -> tuple[frozenset[str], ...]:
    subtrees = tuple(
        frozenset(suffix.strip() for suffix in text.split(",")) for text in texts)
    if any("" in subtree for subtree in subtrees):
        raise errors.BadValue(
            "Empty string (unsuffixed group) can not be specified in `same_subtree`")
    return subtrees


def _parse_groups(query: Query, version: Version) -> list[requests.RequestGroup]:
    """Collect the parameters of each suffix, in the order the suffixes came."""
    by_suffix: dict[str, dict[str, list[str]]] = {}
    key = _KEY.at(version)
    for name, texts in query.items():
        match = key.fullmatch(name)
        if match:
            by_suffix.setdefault(match[2] or "", {})[match[1]] = texts
        elif name not in _WHOLE:
            raise validation.InvalidQuery(f"{name!r} is not a parameter of allocation candidates")
    return [_parse_group(suffix, texts, version) for suffix, texts in by_suffix.items()]


def _parse_group(
    suffix: str, texts: Mapping[str, list[str]], version: Version
) -> requests.RequestGroup:
    """Make one group; of repeated ``resources`` and ``in_tree`` the last counts."""
    amounts = [values.parse_resources(text) for text in texts.get("resources", ())]
    trees = [values.parse_tree(text) for text in texts.get("in_tree", ())]
    return requests.RequestGroup(
        suffix=suffix,
        resources=amounts[-1] if amounts else {},
        traits=values.parse_traits(texts.get("required", ()), version),
        aggregates=values.parse_aggregates(texts.get("member_of", ()), version, suffix=suffix),
        in_tree=trees[-1] if trees else None,
    )


def _check_orphans(groups: Sequence[requests.RequestGroup]) -> None:
    """Refuse groups without resources, as below 1.36."""
    empty = [group for group in groups if not group.resources]
    traits = [f"required{group.suffix}" for group in empty if group.traits.required]
    if traits:
        raise errors.BadQuery(
            "All traits parameters must be associated with resources.  Found the following "
            f"orphaned traits keys: {', '.join(traits)}")
    aggregates = [
        f"member_of{group.suffix}" for group in empty
        if group.aggregates.member_of or group.aggregates.forbidden]
    if aggregates:
        raise errors.BadQuery(
            "All member_of parameters must be associated with resources. Found the following "
            f"orphaned member_of keys: {', '.join(aggregates)}")
    if empty:
        raise errors.BadQuery("All request groups must specify resources.")
    if not groups:
        raise errors.BadQuery(
            "At least one request group (`resources` or `resources{$S}`) is required.")


def _check_subtrees(
    groups: Sequence[requests.RequestGroup], named: Collection[str]
) -> None:
    """Refuse groups without resources that no ``same_subtree`` names (1.36)."""
    suffixes = [group.suffix for group in groups]
    empty = [group.suffix for group in groups if not group.resources]
    if len(empty) == len(groups):
        raise errors.MissingValue(
            "There must be at least one resources or resources[$S] parameter.")
    stray = [suffix for suffix in empty if suffix not in named]
    if stray:
        raise errors.BadValue(
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {stray}.")
    unknown = sorted(suffix for suffix in named if suffix not in suffixes)
    if unknown:
        raise errors.BadValue(
            "Real suffixes should be specified in `same_subtree`: "
            f"{unknown} not found in {suffixes}.")


def _check_conflicts(groups: Iterable[requests.RequestGroup]) -> None:
    """Refuse groups that require a trait they forbid."""
    conflicts = sorted(
        f"required{group.suffix}: ({', '.join(sorted(names))})"
        for group in groups for names in group.traits.required
        if names <= group.traits.forbidden)
    if conflicts:
        raise errors.BadQuery(
            "Conflicting required and forbidden traits found in the following traits keys: "
            f"{', '.join(conflicts)}")
