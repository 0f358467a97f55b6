"""Why a request has the candidates it has, or none.

The filters take notes while they filter; what combining dropped is counted here,
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
from placement_core.placement.candidates.filters import Part, Step, Trace
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Choices
from placement_core.placement.index.world import World

#: So many combinations are looked at; it takes some 0.1 s.
MOST_EXAMINED = 20_000
#: So many candidates are counted, whatever limit a request has: equal devices have more
#: than anybody could wait for. It takes a second, and some 50 MB at most.
MOST_COUNTED = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Filtered:
    """One filter in the words of the query, and how many it left."""

    filter: str
    value: str
    left: int


@dataclasses.dataclass(frozen=True, slots=True)
class GroupExplained:
    """What the filters of a group left of all providers.

    Those of a granular group come one after the other. The unsuffixed group may take
    each resource class from another provider: each ``resources`` is judged by itself,
    after the others, and ``required`` says who of them all, in the trees that are left,
    can bring the trait.

    :ivar group: its suffix.
    """

    group: str
    filters: list[Filtered]


@dataclasses.dataclass(frozen=True, slots=True)
class TreesExplained:
    """What is left of the trees of providers, one filter after the other.

    :ivar total: how many there are; a provider alone is a tree too.
    """

    total: int
    filters: list[Filtered]


@dataclasses.dataclass(frozen=True, slots=True)
class CombinationsExplained:
    """Which rule dropped how many of the combinations of what the filters left.

    :ivar examined: how many were looked at.
    :ivar complete: whether there are no others.
    :ivar dropped: by the first rule that forbids it.
    """

    examined: int
    complete: bool
    dropped: dict[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
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
    groups: list[GroupExplained]
    trees: TreesExplained
    combinations: CombinationsExplained


def candidates(
    world: World, request: CandidatesRequest, *, max_candidates: int | None = None,
    fence: bool = False,
) -> Explanation:
    """Explain what ``search.find`` finds, as far as ``MOST_COUNTED`` goes.

    :param max_candidates: at most so many are made at all; None for no bound.
    :param fence: pooled trees are left out unless the request names them.
    :raises errors.UnknownResourceClass: a class does not exist.
    :raises errors.UnknownTraits: traits do not exist.
    :raises errors.TooHard: where ``search.find`` does, unless so many were counted before.
    """
    trace = Trace()
    choices = search.choose(world, request, trace, fence=fence)
    combinations = _examine(choices)
    limit = min((each for each in (request.limit, max_candidates) if each is not None),
                default=None)
    found, cut = _count(world, request, limit, fence=fence)
    reason = None
    if not found:
        reason = reasons.of(world, request, trace.steps) or reasons.of_combinations(
            choices.plan, combinations.dropped, complete=combinations.complete)
    return Explanation(
        candidates=found,
        cut=cut,
        limit=limit,
        reason=reason,
        providers=len(world.layout.row_of_id),
        groups=[
            GroupExplained(group.suffix, [
                *_left(world, trace.steps, group.suffix),
                *([] if group.suffix else _bearers(choices.plan, trace.steps))])
            for group in request.groups],
        trees=TreesExplained(
            int(np.count_nonzero(world.layout.root == np.arange(world.size))),
            _left(world, trace.steps, None)),
        combinations=combinations)


def _count(
    world: World, request: CandidatesRequest, limit: int | None, *, fence: bool
) -> tuple[int, str | None]:
    """Return how many candidates there are, and why there may be more."""
    # One more than are told of, to know whether there are more.
    most = MOST_COUNTED + 1 if limit is None else min(limit, MOST_COUNTED + 1)
    found = search.find(world, request, max_candidates=most, fence=fence)
    if len(found) > MOST_COUNTED:
        return MOST_COUNTED, f"no more than {MOST_COUNTED} candidates are counted"
    if not found.left or len(found) == limit:
        return len(found), None
    if limit is None:
        raise errors.TooHard(found.left)
    return len(found), (
        f"{found.left} provider trees cost too much to search; some of their candidates "
        "are left out")


def _left(world: World, steps: Iterable[Step], group: str | None) -> list[Filtered]:
    return [Filtered(*_in_words(world, step), int(np.count_nonzero(step.mask)))
            for step in steps if step.group == group]


def _bearers(plan: Plan, steps: Iterable[Step]) -> list[Filtered]:
    """Return how many could bring each trait that the unsuffixed group requires."""
    found = []
    for before, step in itertools.pairwise(each for each in steps if each.group is None):
        if step.filter == filters.TRAITS:
            count = np.count_nonzero(
                reasons.bearers(plan.world, plan.parts, before.mask, step.wanted))
            found.append(Filtered(*_in_words(plan.world, step), int(count)))
    return found


def _in_words(world: World, step: Step) -> tuple[str, str]:
    """Return the parameter and the value that make a filter."""
    name, form = _WORDS[step.filter]
    if step.filter == filters.RESOURCES:
        return name, reasons.amount(world, *step.wanted)
    if step.filter == filters.PART:
        part: Part = step.wanted
        return ("group", part.suffix) if part.granular else (name, reasons.part(world, part))
    return name, form(step.wanted)


def _any_of(names: Collection[str]) -> str:
    return f"in:{','.join(sorted(names))}" if len(names) > 1 else next(iter(names))


def _none_of(names: Collection[str]) -> str:
    return ",".join(f"!{name}" for name in sorted(names))


#: {a filter: (its parameter, how its value is written)}
_WORDS: dict[str, tuple[str, Callable[..., str]]] = {
    filters.RESOURCES: ("resources", str),
    filters.PART: ("resources", str),
    filters.NOTHING: ("resources", lambda _: ""),
    filters.TRAITS: ("required", _any_of),
    filters.NO_TRAITS: ("required", _none_of),
    filters.AGGREGATES: ("member_of", lambda sets: " and ".join(map(_any_of, sets))),
    filters.NO_AGGREGATES: ("member_of", lambda uuids: f"!{_any_of(uuids)}"),
    filters.IN_TREE: ("in_tree", str),
    filters.ROOT_TRAITS: ("root_required", _any_of),
    filters.NO_ROOT_TRAITS: ("root_required", _none_of),
    filters.FENCE: ("fence", lambda count: f"{count} kept for reservations"),
}


def _examine(choices: Choices) -> CombinationsExplained:
    """Judge the combinations, trees taking turns, as many as ``MOST_EXAMINED``."""
    plan = choices.plan
    sharing = plan.world.sharing().keys()
    everything = search.take_turns(
        itertools.product(*tree.options) for tree in choices.trees())
    # Sharing providers among themselves are offered by every tree they serve.
    seen: set[Combination] = set()
    examined = 0
    dropped = dict.fromkeys(reasons.RULES, 0)
    for combination in itertools.islice(everything, MOST_EXAMINED):
        if sharing and sharing >= set(combination):
            if combination in seen:
                continue
            seen.add(combination)
        examined += 1
        rule = _broken(plan, combination) if plan.has_rules else None
        if rule is not None:
            dropped[rule] += 1
    return CombinationsExplained(examined, next(everything, None) is None, dropped)


def _broken(plan: Plan, combination: Combination) -> str | None:
    """Return the first rule that a combination breaks; None: it is a candidate."""
    layout = plan.world.layout
    serving = list(zip(plan.parts, combination, strict=True))
    granular = [row for part, row in serving if part.granular]
    used = {row for part, row in serving if part.resources}
    if plan.isolate and len(set(granular)) < len(granular):
        return reasons.ISOLATE
    for numbers in plan.subtrees:
        lines = [layout.ancestors(combination[number]) for number in numbers]
        # The first of a line is the provider itself.
        if not any(all(top[0] in line for line in lines) for top in lines):
            return reasons.SAME_SUBTREE
    if plan.one_per_tree and len({layout.root[row] for row in used}) < len(used):
        return reasons.ONE_PER_TREE
    if plan.required:
        traits: set[int] = set()
        for part, row in serving:
            if not part.granular:
                traits |= plan.world.entry(row).traits
        if any(names.isdisjoint(traits) for names in plan.required):
            return reasons.REQUIRED
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for pairs, row in zip(plan.contested, combination, strict=True):
        for class_id, amount in pairs:
            sums[row, class_id] += amount
    if any(amount > plan.useful_room(row, class_id)
           for (row, class_id), amount in sums.items()):
        return reasons.CAPACITY
    return None
