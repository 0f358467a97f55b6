"""Answers of GET /allocation_candidates: which of them a limit bites, and what it may choose.

Which candidates a limit leaves is up to each service, so two answers may differ and both be
right. What is judged here is what the query and the answer show: amounts, room, and the traits
of groups and of the root. An answer does not show aggregates, so these are not judged; nor are
``in_tree``, ``group_policy`` and ``same_subtree``.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from placement_core.shadow.microversions import ANY_TRAITS

#: No answer has as many candidates as a longer number says.
_LIMIT = re.compile("[1-9][0-9]{0,17}")
#: What a group asks for, and its suffix; what a query may hold is for the services to check.
_PARAMETER = re.compile("(resources|required)(.*)", re.DOTALL)
#: A provider that has it may serve the trees of others.
_SHARING = "MISC_SHARES_VIA_AGGREGATE"


@dataclasses.dataclass(frozen=True, slots=True)
class TraitFilter:
    """Traits that providers must and must not have.

    :ivar required: one set for each condition: at least one trait of every set.
    :ivar forbidden: none of these.
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class RequestGroup:
    """What the parameters of one suffix ask for.

    :ivar resources: {class: amount}.
    """

    resources: Mapping[str, int]
    traits: TraitFilter


@dataclasses.dataclass(frozen=True, slots=True)
class CandidatesQuery:
    """What a query asks for, as far as an answer shows it.

    :ivar groups: {suffix: group}; "" is the suffix of the unsuffixed one.
    :ivar root_traits: those of the root of the tree that a candidate is in.
    """

    groups: Mapping[str, RequestGroup]
    root_traits: TraitFilter


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate.

    :ivar allocations: {provider: {class: amount}}.
    :ivar mappings: {suffix: the providers of its group}; empty: not shown (before 1.34).
    """

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """What an answer says of a provider.

    :ivar room: {class: capacity that is not used}.
    :ivar traits: None: not shown (before 1.17).
    :ivar root: the root of its tree; None: not shown (before 1.29).
    """

    room: Mapping[str, int]
    traits: frozenset[str] | None
    root: str | None


Summaries = Mapping[str, Summary]


@dataclasses.dataclass(frozen=True, slots=True)
class CandidatesAnswer:
    """The document of an answer.

    :ivar summaries: {provider: what is said of it}.
    """

    candidates: tuple[Candidate, ...]
    summaries: Summaries


def find_limit(query: str) -> int | None:
    """Return the limit of a query; None: none that an answer could reach.

    Both services take the first of several.
    """
    texts = parse_qs(query, keep_blank_values=True).get("limit", [""])
    return int(texts[0]) if _LIMIT.fullmatch(texts[0]) else None


def parse_query(query: str, version: tuple[int, int]) -> CandidatesQuery | None:
    """Return what a query asks for; None: it is malformed."""
    parameters = parse_qs(query, keep_blank_values=True)
    by_suffix: dict[str, dict[str, list[str]]] = {}
    for name, texts in parameters.items():
        match = _PARAMETER.fullmatch(name)
        if match:
            by_suffix.setdefault(match[2], {})[match[1]] = texts
    try:
        groups = {suffix: _parse_group(texts, version) for suffix, texts in by_suffix.items()}
    except ValueError:  # Amounts that are none.
        return None
    return CandidatesQuery(groups, _parse_traits(parameters.get("root_required", ())))


def _parse_group(texts: Mapping[str, Sequence[str]], version: tuple[int, int]) -> RequestGroup:
    """Return what one suffix asks for; the last ``resources`` counts.

    :raises ValueError: it is malformed.
    """
    resources = texts.get("resources", ())[-1:]
    required = texts.get("required", ())
    return RequestGroup(
        resources=_parse_amounts(resources[0]) if resources else {},
        traits=_parse_traits(required if version >= ANY_TRAITS else required[-1:]))


def _parse_amounts(text: str) -> dict[str, int]:
    """Parse ``CLASS:N,CLASS:N``.

    :raises ValueError: it is malformed.
    """
    items = (item.split(":") for item in text.split(","))
    return {name: int(amount) for name, amount in items}


def _parse_traits(texts: Iterable[str]) -> TraitFilter:
    """Parse ``A,!B`` and ``in:A,B``, all of which have to hold."""
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in texts:
        names = [name.strip() for name in text.removeprefix("in:").split(",")]
        if text.startswith("in:"):
            required.append(frozenset(names))
            continue
        required += [frozenset((name,)) for name in names if not name.startswith("!")]
        forbidden.update(name.lstrip("!") for name in names if name.startswith("!"))
    return TraitFilter(tuple(required), frozenset(forbidden))


def count(document: Any) -> int:
    """Return how many candidates a document has; 0 if it is of another form."""
    listed = document.get("allocation_requests") if isinstance(document, dict) else None
    return len(listed) if isinstance(listed, list) else 0


def read(document: Any) -> CandidatesAnswer | None:
    """Return what a document says; None: it is not one that the API describes."""
    try:
        return CandidatesAnswer(
            tuple(map(_read_candidate, document["allocation_requests"])),
            {provider: _read_summary(summary)
             for provider, summary in document["provider_summaries"].items()})
    except (AttributeError, KeyError, TypeError):
        # Whatever is of another form ends here, instead of a check at each step.
        return None


def _read_candidate(document: Any) -> Candidate:
    allocations = document["allocations"]
    if isinstance(allocations, list):  # Before 1.12.
        allocations = {item["resource_provider"]["uuid"]: item for item in allocations}
    mappings = document.get("mappings") or {}
    return Candidate(
        {provider: {name: operator.index(amount) for name, amount in item["resources"].items()}
         for provider, item in allocations.items()},
        {suffix: frozenset(providers) for suffix, providers in mappings.items()})


def _read_summary(document: Any) -> Summary:
    room = {name: operator.index(amounts["capacity"]) - operator.index(amounts["used"])
            for name, amounts in document["resources"].items()}
    root = document.get("root_provider_uuid")
    return Summary(
        room, frozenset(document["traits"]) if "traits" in document else None,
        root if isinstance(root, str) else None)


def find_illegal(query: CandidatesQuery | None, answer: CandidatesAnswer) -> str | None:
    """Return what is wrong with the candidates of an answer; None: nothing that it shows.

    :param query: None: it says nothing.
    """
    if _has_duplicates(query, answer.candidates):
        return "a candidate twice"
    causes = (_find_cause(query, candidate, answer.summaries) for candidate in answer.candidates)
    return next(filter(None, causes), None)


def _has_duplicates(query: CandidatesQuery | None, candidates: Collection[Candidate]) -> bool:
    """Tell whether a candidate is there twice.

    Two that give the groups of a query other providers look alike where mappings are not shown.
    """
    is_one_group = query is not None and len(query.groups) == 1
    if not is_one_group and not all(candidate.mappings for candidate in candidates):
        return False
    return len(set(map(_freeze, candidates))) != len(candidates)


def _freeze(candidate: Candidate) -> frozenset[Any]:
    """Return a key that equal candidates share."""
    return frozenset((
        frozenset((provider, frozenset(amounts.items()))
                  for provider, amounts in candidate.allocations.items()),
        ("mappings", frozenset(candidate.mappings.items()))))


def _find_cause(
    query: CandidatesQuery | None, candidate: Candidate, summaries: Summaries
) -> str | None:
    """Return what is wrong with a candidate."""
    if not _has_room(candidate, summaries):
        return "a candidate that does not fit"
    if query is None:
        return None
    wanted = _add_up(group.resources for group in query.groups.values())
    if _add_up(candidate.allocations.values()) != wanted:
        return "amounts of a candidate"
    for suffix, group in query.groups.items():
        # Where mappings are not shown, the unsuffixed group has some of the providers only.
        is_whole = bool(suffix or candidate.mappings or len(query.groups) == 1)
        traits = group.traits if is_whole else TraitFilter(group.traits.required)
        serving = [providers for providers in _list_options(suffix, candidate)
                   if _gives(candidate, providers, group.resources)]
        if not serving:
            return "amounts of a candidate"
        if not any(_has_traits(traits, providers, summaries) for providers in serving):
            return "traits of a candidate"
    anchors = _list_anchors(candidate, summaries)
    if not all(_has_traits(query.root_traits, [anchor], summaries) for anchor in anchors):
        return "traits of a root"
    return None


def _has_room(candidate: Candidate, summaries: Summaries) -> bool:
    return all(
        provider in summaries and amount <= summaries[provider].room.get(name, 0)
        for provider, amounts in candidate.allocations.items()
        for name, amount in amounts.items())


def _add_up(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return {class: sum of its amounts}."""
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)


def _list_options(suffix: str, candidate: Candidate) -> list[Collection[str]]:
    """Return sets of providers, of which one serves the group of a suffix.

    That is one provider for a granular group; the unsuffixed one may use several.
    """
    providers: Collection[str] = candidate.allocations
    if candidate.mappings:
        providers = candidate.mappings.get(suffix, ())
    return [[provider] for provider in providers] if suffix else [providers]


def _gives(
    candidate: Candidate, providers: Collection[str], resources: Mapping[str, int]
) -> bool:
    """Tell whether each class comes from one of some providers."""
    return all(
        any(candidate.allocations.get(provider, {}).get(name, 0) >= amount
            for provider in providers)
        for name, amount in resources.items())


def _has_traits(
    traits: TraitFilter, providers: Collection[str], summaries: Summaries
) -> bool:
    """Tell whether providers together have what is required, and none what is forbidden.

    One whose traits are not shown may have any.
    """
    all_traits = (summaries[provider].traits for provider in providers if provider in summaries)
    shown_traits = [names for names in all_traits if names is not None]
    if any(not traits.forbidden.isdisjoint(names) for names in shown_traits):
        return False
    every: frozenset[str] = frozenset().union(*shown_traits)
    return len(shown_traits) < len(providers) or all(
        not names.isdisjoint(every) for names in traits.required)


def _list_anchors(candidate: Candidate, summaries: Summaries) -> set[str]:
    """Return the roots of the tree that a candidate is in, as far as an answer tells.

    A sharing provider does not: it may serve the tree of another.
    """
    used = [summaries[provider] for provider in candidate.allocations if provider in summaries]
    return {summary.root for summary in used
            if summary.root is not None and summary.traits is not None
            and _SHARING not in summary.traits}
