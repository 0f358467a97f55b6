"""The sentence that says why a request for candidates has an empty answer.

It names the first filter that left nothing and, where room was short, the provider
that came closest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from placement_core.placement.candidates import filters
from placement_core.placement.candidates.filters import Part, Step
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.index.rows import Inventory
from placement_core.placement.index.world import World

#: The rules of combining, in the order in which a combination is judged by them.
ISOLATE = "isolate"
SAME_SUBTREE = "same_subtree"
ONE_PER_TREE = "one_provider_per_tree"
REQUIRED = "required"
CAPACITY = "capacity"
RULES = (ISOLATE, SAME_SUBTREE, ONE_PER_TREE, REQUIRED, CAPACITY)

#: What a combination does that breaks a rule: (it does, they do, what).
_BROKEN = {
    ISOLATE: ("puts", "put", "two groups on one provider and group_policy=isolate forbids that"),
    SAME_SUBTREE: (
        "puts", "put", "groups into different subtrees and same_subtree forbids that"),
    ONE_PER_TREE: (
        "uses", "use", "several providers of one tree and the microversion forbids that"),
    REQUIRED: (
        "lacks", "lack", "a trait that the providers of the group without suffix must have"),
    CAPACITY: ("asks", "ask", "one provider for more {classes} than it has room for"),
}


def of(world: World, request: CandidatesRequest, steps: Iterable[Step]) -> str | None:
    """Return why nothing passed the filters; None: something did."""
    layout = world.layout
    everybody = layout.root >= 0
    if not everybody.any():
        return "there are no resource providers"
    roots = layout.root == np.arange(world.size)
    before: dict[str | None, np.ndarray] = {}
    tree_steps: list[Step] = []
    for step in steps:
        scope = before.get(step.group, roots if step.group is None else everybody)
        if not step.mask.any():
            if step.group is None:
                words = _no_tree(world, step, tree_steps, scope, before.get("", everybody))
            else:
                left = "" if scope is everybody else " that is left"
                words = _no_provider(world, step, scope, left)
            several = len(request.groups) > 1
            return f"{_prefix(step)}{words}" if several else words
        if step.group is None:
            tree_steps.append(step)
        if step.group != "" or step.filter != filters.RESOURCES:
            # The unsuffixed group may take each class from another provider.
            before[step.group] = step.mask
    return None


def of_combinations(plan: Plan, dropped: Mapping[str, int], *, complete: bool) -> str:
    """Return why no combination of what the filters left is a candidate.

    :param complete: whether ``dropped`` counts all combinations.
    """
    classes = " or ".join(sorted(plan.world.names.class_names[each] for each in plan.demand))
    broken = [rule for rule in RULES if dropped[rule]]
    if not broken:
        # Some would do, but nobody was allowed to look for one.
        return "[placement] max_allocation_candidates is 0"
    first = "" if complete else "first "
    total = sum(dropped.values())
    if len(broken) == 1:
        does, _, what = _BROKEN[broken[0]]
        subject = "every combination" if complete else f"each of the first {total} combinations"
        return f"{subject} {does} {what.format(classes=classes)}"
    each = "; ".join(
        f"{dropped[rule]} {_BROKEN[rule][dropped[rule] > 1]} "
        f"{_BROKEN[rule][2].format(classes=classes)}" for rule in broken)
    return f"of the {first}{total} combinations, {each}"


def bearers(
    world: World, parts: Iterable[Part], roots: np.ndarray, names: frozenset[str] | None = None
) -> np.ndarray:
    """Return who could bring a trait to the unsuffixed group, as booleans over rows.

    :param roots: of the trees that are left.
    :param names: of which traits one is enough; None: whoever the group could use.
    """
    near = roots[world.layout.root]
    serving = np.zeros(world.size, dtype=bool)
    for each in parts:
        if not each.granular:
            serving |= each.home & near
            reached = roots if each.closed is None else roots & ~each.closed
            serving[[
                row for row in each.away if reached[world.sharing()[row].rows].any()]] = True
    having = None if names is None else filters.with_any_trait(world, names)
    return serving if having is None else serving & having


def amount(world: World, class_id: int, wanted: int) -> str:
    """Return an amount as the query has it: ``VCPU:4``."""
    return f"{world.names.class_names[class_id]}:{wanted}"


def part(world: World, wanted: Part) -> str:
    """Return what a part is in the words of the query."""
    if wanted.granular:
        return f"group {wanted.suffix}"
    return ",".join(amount(world, *each) for each in wanted.resources.items())


def _prefix(step: Step) -> str:
    """Return which group a filter is about, as the beginning of a sentence."""
    if step.group:
        return f"group {step.group}: "
    return "group without suffix: " if step.group == "" or step.filter == filters.TRAITS else ""


def _no_provider(world: World, step: Step, scope: np.ndarray, left: str) -> str:
    """Say why a filter of a group left nothing of the providers in ``scope``."""
    noun = _noun(world, np.flatnonzero(scope))
    wanted = step.wanted
    if step.filter == filters.RESOURCES:
        class_id, number = wanted
        return _no_room(world, class_id, number, scope, lambda noun: f"no {noun}{left} has")
    if step.filter == filters.NOTHING:
        return "it asks for nothing: without resources, it needs required or member_of"
    if step.filter == filters.IN_TREE:
        row = world.layout.row_of_uuid.get(wanted)
        if row is None:
            return f"in_tree names {wanted}, and there is no such provider"
        return f"no {noun}{left} is in the tree of {_name(world, row)}"
    if step.filter == filters.AGGREGATES:
        names = " and of ".join(_one_of("aggregate", uuids) for uuids in wanted)
        return f"no {noun}{left} is a member of {names}"
    if step.filter == filters.NO_AGGREGATES:
        return f"every {noun}{left} is a member of {_one_of('forbidden aggregate', wanted)}"
    if step.filter == filters.NO_TRAITS:
        return f"every {noun}{left} has {_one_of('forbidden trait', wanted)}"
    return f"no {noun}{left} has {_one_of('trait', wanted)}"


def _no_tree(
    world: World, step: Step, earlier: list[Step], scope: np.ndarray, allowed: np.ndarray
) -> str:
    """Say why a filter of trees left nothing.

    :param scope: the roots of the trees there were.
    :param allowed: rows that the unsuffixed group may use.
    """
    left = " that is left" if earlier else ""
    if step.filter == filters.ROOT_TRAITS:
        return f"no root provider{left} has {_one_of('trait', step.wanted)}"
    if step.filter == filters.NO_ROOT_TRAITS:
        return f"every root provider{left} has {_one_of('forbidden trait', step.wanted)}"
    if step.filter == filters.TRAITS:
        parts = [each.wanted for each in earlier if each.filter == filters.PART]
        noun = _noun(world, np.flatnonzero(bearers(world, parts, scope)))
        return f"no {noun}{left} has {_one_of('trait', step.wanted)}"
    single = not world.layout.trees and not world.sharing()
    if step.filter == filters.FENCE:
        whole, several = ("host", "hosts") if single else (
            "tree of providers", "trees of providers")
        left = f"the only {whole} left is" if step.wanted == 1 else (
            f"all {step.wanted} {several} left are")
        return (f"{left} kept for reservations, and the request names no reservation's "
                "resource class, aggregate (member_of) or tree (in_tree)")
    whole = "host" if single else "tree of providers"
    others = ", ".join(
        part(world, each.wanted) for each in earlier if each.filter == filters.PART)
    subject = f"no {whole} with {others}" if others else f"no {whole}{left}"
    wanted: Part = step.wanted
    if wanted.granular:
        fits = "fits" if single else "has a provider that fits"
        return f"{subject} {fits} group {wanted.suffix}"
    (class_id, number), = wanted.resources.items()
    near = allowed & scope[world.layout.root]
    for row, anchors in world.sharing().items():
        near[row] |= allowed[row] and bool(scope[anchors.rows].any())
    # Who shares and has room, but not for these trees, is not what is missing.
    near &= ~world.column(class_id).fitting(number, world.size)
    has = "has" if single else "has a provider with"
    return _no_room(world, class_id, number, near, lambda _: f"{subject} {has}")


def _no_room(
    world: World, class_id: int, wanted: int, scope: np.ndarray,
    nobody_has: Callable[[str], str],
) -> str:
    """Say why no provider in ``scope`` can give an amount of a class at once.

    :param nobody_has: makes the beginning of a sentence, up to its verb, of what the
        providers are.
    """
    name = world.names.class_names[class_id]
    rows = world.column(class_id).rows
    rows = rows[scope[rows]]
    if not len(rows):
        return f"{nobody_has(_noun(world, np.flatnonzero(scope)))} an inventory of {name}"
    noun = _noun(world, rows)
    # The columns hold what is free only up to a bound; here it is exact.
    known = [(row, world.entry(row).inventory(class_id)) for row in rows.tolist()]
    enough = [(row, each) for row, each in known if _free(each) >= wanted]
    if not enough:
        row, most = max(known, key=lambda pair: _free(pair[1]))
        rest = (f"the most is {_free(most)}, on {_name(world, row)}" if _free(most) > 0
                else "none has any left")
        return f"{nobody_has(noun)} {wanted} free {name}; {rest}"
    have = f"1 {noun} has" if len(enough) == 1 else f"{len(enough)} {noun}s have"
    causes = ", and ".join(_causes(world, wanted, enough))
    return (f"{nobody_has(noun)} {wanted} {name} to give at once; {have} so many free, "
            f"but {causes}")


def _causes(
    world: World, wanted: int, inventories: Iterable[tuple[int, Inventory]]
) -> Iterable[str]:
    """Say which of max_unit, min_unit and step_size is in the way, and how far."""
    high: list[tuple[int, Inventory]] = []
    low: list[tuple[int, Inventory]] = []
    uneven: list[tuple[int, Inventory]] = []
    for row, each in inventories:
        (high if wanted > each.max_unit else low if wanted < each.min_unit else uneven).append(
            (row, each))
    if high:
        row, best = max(high, key=lambda pair: pair[1].max_unit)
        yield f"the highest max_unit is {best.max_unit} on {_name(world, row)}"
    if low:
        row, best = min(low, key=lambda pair: pair[1].min_unit)
        yield f"the lowest min_unit is {best.min_unit} on {_name(world, row)}"
    if uneven:
        row, best = uneven[0]
        others = f" and as unfit on {len(uneven) - 1} more" if len(uneven) > 1 else ""
        yield f"step_size is {best.step_size} on {_name(world, row)}{others}"


def _free(inventory: Inventory) -> int:
    return inventory.capacity - inventory.used


def _noun(world: World, rows: np.ndarray) -> str:
    """Return what these providers are: hosts, as far as one can tell, or something else."""
    sharing = world.sharing()
    hosts = (world.layout.root[rows] == rows).all() and not any(
        row in sharing for row in rows.tolist())
    return "host" if hosts else "provider"


def _name(world: World, row: int) -> str:
    return world.entry(row).provider.name


def _one_of(noun: str, names: Collection[str]) -> str:
    """Return ``the trait A`` or ``one of the traits A, B``."""
    listed = ", ".join(sorted(names))
    return f"the {noun} {listed}" if len(names) == 1 else f"one of the {noun}s {listed}"
