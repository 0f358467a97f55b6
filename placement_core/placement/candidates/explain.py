"""Why a request has the candidates it has, or none.

The filters record what they leave; what combining dropped is counted here,
over the combinations themselves: the search cuts whole branches and never sees most
of what it leaves out.
Source: design §7.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import numpy as np

from placement_core.placement.candidates import errors, filters, reasons, search
from placement_core.placement.candidates.combine import Combination
from placement_core.placement.candidates.filters import FilterStep, RequestPart, Trace
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Choices
from placement_core.placement.index.snapshot import CapacitySnapshot

#: How many combinations are examined at most. Of requests with many parts, each of which has a
#: place in every combination, fewer are. It takes a third of a second at most.
_MOST_EXAMINED = 20_000
_MOST_PLACES_EXAMINED = 100_000
#: How many candidates are counted at most, whatever limit a request has: equal devices
#: have more than any client could wait for. Of requests with many groups, each of which has a
#: place in every candidate, fewer are. It takes a second, and some 50 MB at most.
MOST_COUNTED = 100_000
_MOST_PLACES = 150_000


@dataclasses.dataclass(frozen=True, slots=True)
class FilterResult:
    """One filter in the words of the query, and how many it left."""

    filter: str
    value: str
    left: int


@dataclasses.dataclass(frozen=True, slots=True)
class GroupExplanation:
    """What the filters of a group left of all providers.

    Those of a granular group come one after the other. The unsuffixed group may take
    each resource class from another provider: each ``resources`` is judged by itself,
    after the others, and ``required`` says who of them all, in the trees that are left,
    can bring the trait.

    :ivar group: its suffix.
    """

    group: str
    filters: list[FilterResult]


@dataclasses.dataclass(frozen=True, slots=True)
class TreesExplanation:
    """What is left of the trees of providers, one filter after the other.

    :ivar total: how many there are; a provider alone is a tree too.
    """

    total: int
    filters: list[FilterResult]


@dataclasses.dataclass(frozen=True, slots=True)
class CombinationsExplanation:
    """Which rule dropped how many of the combinations of what the filters left.

    :ivar examined: how many were examined.
    :ivar complete: whether there are no others.
    :ivar dropped: by the first rule that forbids it.
    """

    examined: int
    complete: bool
    dropped: dict[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class CandidatesExplanation:
    """How the candidates of a request came about.

    :ivar candidates: how many were found.
    :ivar cut: why there may be more, for people; None: these are all that the request gets.
    :ivar limit: at most so many were looked for; None: all.
    :ivar reason: why there are none, for people; None: there are some.
    :ivar providers: how many there are.
    """

    candidates: int
    cut: str | None
    limit: int | None
    reason: str | None
    providers: int
    groups: list[GroupExplanation]
    trees: TreesExplanation
    combinations: CombinationsExplanation


def explain_candidates(
    snapshot: CapacitySnapshot, request: CandidatesRequest, *, max_candidates: int | None = None,
    exclude_reserved: bool = False,
) -> CandidatesExplanation:
    """Explain what ``search.find`` finds, as far as it is counted.

    :param max_candidates: the most combinations to make; None for no bound.
    :param exclude_reserved: pooled trees are left out unless the request names them.
    :raises errors.UnknownRequestedClass: a class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    :raises errors.TooHard: where ``search.find`` does, unless so many were counted before.
    """
    trace = Trace()
    choices = search.choose(snapshot, request, trace, exclude_reserved=exclude_reserved)
    combinations = examine(choices)
    limit = min((most for most in (request.limit, max_candidates) if most is not None),
                default=None)
    most = min(MOST_COUNTED, _MOST_PLACES // len(choices.plan.parts))
    found, cut = _count_candidates(
        snapshot, request, limit, most, exclude_reserved=exclude_reserved)
    reason = None
    if not found:
        reason = reasons.explain_filters(snapshot, request, trace.steps)
        reason = reason or reasons.explain_combinations(
            choices.plan, combinations.dropped, complete=combinations.complete)
    return CandidatesExplanation(
        candidates=found,
        cut=cut,
        limit=limit,
        reason=reason,
        providers=len(snapshot.layout.row_of_id),
        groups=[
            GroupExplanation(group.suffix, [
                *_summarize_steps(snapshot, trace.steps, group.suffix),
                *([] if group.suffix else _count_trait_bearers(choices.plan, trace.steps))])
            for group in request.groups],
        trees=_explain_trees(snapshot, trace.steps),
        combinations=combinations)


def explain_trees(
    snapshot: CapacitySnapshot, request: CandidatesRequest, *, exclude_reserved: bool = False
) -> TreesExplanation:
    """Explain only what the filters left of the trees, which costs little.

    :raises errors.UnknownRequestedClass, errors.UnknownRequestedTraits: there is no such name.
    """
    trace = Trace()
    search.choose(snapshot, request, trace, exclude_reserved=exclude_reserved)
    return _explain_trees(snapshot, trace.steps)


def _explain_trees(
    snapshot: CapacitySnapshot, steps: Iterable[FilterStep]
) -> TreesExplanation:
    return TreesExplanation(
        int(np.count_nonzero(snapshot.layout.root == np.arange(snapshot.size))),
        _summarize_steps(snapshot, steps, None))


def _count_candidates(
    snapshot: CapacitySnapshot, request: CandidatesRequest, limit: int | None, most: int, *,
    exclude_reserved: bool,
) -> tuple[int, str | None]:
    """Return how many candidates there are, ``most`` at most, and why there may be more."""
    # One more than is reported, to know whether there are more.
    bound = most + 1 if limit is None else min(limit, most + 1)
    found = search.find(snapshot, request, max_candidates=bound, exclude_reserved=exclude_reserved)
    if len(found) > most:
        return most, f"no more than {most} candidates are counted"
    if not found.abandoned_trees or len(found) == limit:
        return len(found), None
    if limit is None:
        raise errors.TooHard(found.abandoned_trees)
    return len(found), (
        f"{found.abandoned_trees} provider trees cost too much to search; some of their "
        "candidates are left out")


def _summarize_steps(
    snapshot: CapacitySnapshot, steps: Iterable[FilterStep], group: str | None
) -> list[FilterResult]:
    return [FilterResult(*describe_filter(snapshot, step), int(np.count_nonzero(step.mask)))
            for step in steps if step.group == group]


def _count_trait_bearers(plan: Plan, steps: Iterable[FilterStep]) -> list[FilterResult]:
    """Return how many could bring each trait that the unsuffixed group requires."""
    found = []
    for before, step in itertools.pairwise(step for step in steps if step.group is None):
        if step.filter == filters.TRAITS:
            count = np.count_nonzero(
                reasons.find_trait_bearers(plan.snapshot, plan.parts, before.mask, step.wanted))
            found.append(FilterResult(*describe_filter(plan.snapshot, step), int(count)))
    return found


def describe_filter(snapshot: CapacitySnapshot, step: FilterStep) -> tuple[str, str]:
    """Return the parameter and the value that make a filter."""
    name, form = _WORDS[step.filter]
    if step.filter == filters.RESOURCES:
        return name, reasons.format_amount(snapshot, *step.wanted)
    if step.filter == filters.PART:
        part: RequestPart = step.wanted
        return (("group", part.suffix) if part.granular
                else (name, reasons.format_part(snapshot, part)))
    return name, form(step.wanted)


def _format_any_of(names: Collection[str]) -> str:
    return f"in:{','.join(sorted(names))}" if len(names) > 1 else next(iter(names))


def _format_none_of(names: Collection[str]) -> str:
    return ",".join(f"!{name}" for name in sorted(names))


#: {a filter: (its parameter, how its value is written)}
_WORDS: dict[str, tuple[str, Callable[..., str]]] = {
    filters.RESOURCES: ("resources", str),
    filters.PART: ("resources", str),
    filters.NOTHING: ("resources", lambda _: ""),
    filters.TRAITS: ("required", _format_any_of),
    filters.NO_TRAITS: ("required", _format_none_of),
    filters.AGGREGATES: ("member_of", lambda sets: " and ".join(map(_format_any_of, sets))),
    filters.NO_AGGREGATES: ("member_of", lambda uuids: f"!{_format_any_of(uuids)}"),
    filters.IN_TREE: ("in_tree", str),
    filters.ROOT_TRAITS: ("root_required", _format_any_of),
    filters.NO_ROOT_TRAITS: ("root_required", _format_none_of),
    filters.RESERVED: ("fence", lambda count: f"{count} kept for reservations"),
}


def examine(choices: Choices) -> CombinationsExplanation:
    """Judge the combinations, trees taking turns, within the bounds above."""
    plan = choices.plan
    most = min(_MOST_EXAMINED, _MOST_PLACES_EXAMINED // len(plan.parts))
    sharing = plan.snapshot.sharing_providers().keys()
    combinations = search.take_turns(
        itertools.product(*tree.options) for tree in choices.trees())
    # Every tree offers the combinations of sharing providers that serve it.
    seen: set[Combination] = set()
    examined = 0
    dropped = dict.fromkeys(reasons.RULES, 0)
    for combination in itertools.islice(combinations, most):
        if sharing and sharing >= set(combination):
            if combination in seen:
                continue
            seen.add(combination)
        examined += 1
        rule = _find_broken_rule(plan, combination) if plan.has_rules else None
        if rule is not None:
            dropped[rule] += 1
    return CombinationsExplanation(examined, next(combinations, None) is None, dropped)


def _find_broken_rule(plan: Plan, combination: Combination) -> str | None:
    """Return the first rule that a combination breaks; None: it is a candidate."""
    for rule, is_broken in _CHECKS:
        if is_broken(plan, combination):
            return rule
    return None


def _breaks_isolation(plan: Plan, combination: Combination) -> bool:
    if not plan.isolate:
        return False
    rows = [row for part, row in zip(plan.parts, combination, strict=True) if part.granular]
    return len(set(rows)) < len(rows)


def _breaks_same_subtree(plan: Plan, combination: Combination) -> bool:
    for numbers in plan.subtrees:
        lineages = [plan.snapshot.layout.ancestors(combination[number]) for number in numbers]
        # The first of a lineage is the provider itself.
        if not any(all(own[0] in lineage for lineage in lineages) for own in lineages):
            return True
    return False


def _breaks_one_per_tree(plan: Plan, combination: Combination) -> bool:
    if not plan.one_per_tree:
        return False
    used = {row for part, row in zip(plan.parts, combination, strict=True) if part.resources}
    root = plan.snapshot.layout.root
    return len({root[row] for row in used}) < len(used)


def _lacks_required_traits(plan: Plan, combination: Combination) -> bool:
    if not plan.required:
        return False
    traits: set[int] = set()
    for part, row in zip(plan.parts, combination, strict=True):
        if not part.granular:
            traits |= plan.snapshot.entry(row).traits
    return any(names.isdisjoint(traits) for names in plan.required)


def _exceeds_capacity(plan: Plan, combination: Combination) -> bool:
    demand: dict[tuple[int, int], int] = defaultdict(int)
    for amounts, row in zip(plan.contested, combination, strict=True):
        for class_id, amount in amounts:
            demand[row, class_id] += amount
    return any(amount > plan.useful_room(row, class_id)
               for (row, class_id), amount in demand.items())


#: The rules in the order of ``reasons.RULES``, each with the check that says it is broken.
_CHECKS: tuple[tuple[str, Callable[[Plan, Combination], bool]], ...] = (
    (reasons.ISOLATE, _breaks_isolation),
    (reasons.SAME_SUBTREE, _breaks_same_subtree),
    (reasons.ONE_PER_TREE, _breaks_one_per_tree),
    (reasons.REQUIRED, _lacks_required_traits),
    (reasons.CAPACITY, _exceeds_capacity),
)
