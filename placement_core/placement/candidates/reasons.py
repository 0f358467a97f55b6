"""The sentence that says why a request for candidates has an empty answer.

It names the first filter that left nothing and, where room was short, the provider
that came closest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from placement_core.placement.candidates import filters
from placement_core.placement.candidates.filters import FilterStep, RequestPart
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.records import InventoryRow
from placement_core.placement.index.snapshot import CapacitySnapshot

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


def explain_filters(
    snapshot: CapacitySnapshot, request: CandidatesRequest, steps: Iterable[FilterStep]
) -> str | None:
    """Return why nothing passed the filters; None: something did."""
    layout = snapshot.layout
    everybody = layout.root >= 0
    if not everybody.any():
        return "there are no resource providers"
    roots = layout.root == np.arange(snapshot.size)
    before: dict[str | None, Mask] = {}
    tree_steps: list[FilterStep] = []
    for step in steps:
        scope = before.get(step.group, roots if step.group is None else everybody)
        if not step.mask.any():
            if step.group is None:
                words = _explain_no_tree(
                    snapshot, step, tree_steps, scope, before.get("", everybody))
            else:
                left = "" if scope is everybody else " that is left"
                words = _explain_no_provider(snapshot, step, scope, left)
            several = len(request.groups) > 1
            return f"{_format_prefix(step)}{words}" if several else words
        if step.group is None:
            tree_steps.append(step)
        if step.group != "" or step.filter != filters.RESOURCES:
            # The unsuffixed group may take each class from another provider.
            before[step.group] = step.mask
    return None


def explain_combinations(plan: Plan, dropped: Mapping[str, int], *, complete: bool) -> str:
    """Return why no combination of what the filters left is a candidate.

    :param complete: whether ``dropped`` counts all combinations.
    """
    classes = " or ".join(
        sorted(plan.snapshot.names.class_names[class_id] for class_id in plan.demand))
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
    counts = "; ".join(
        f"{dropped[rule]} {_BROKEN[rule][dropped[rule] > 1]} "
        f"{_BROKEN[rule][2].format(classes=classes)}" for rule in broken)
    return f"of the {first}{total} combinations, {counts}"


def find_trait_bearers(
    snapshot: CapacitySnapshot, parts: Iterable[RequestPart], roots: Mask,
    names: frozenset[str] | None = None,
) -> Mask:
    """Return who could bring a trait to the unsuffixed group, as booleans over rows.

    :param roots: of the trees that are left.
    :param names: of which traits one is enough; None: whoever the group could use.
    """
    near = roots[snapshot.layout.root]
    sharing = snapshot.sharing_providers()
    serving = np.zeros(snapshot.size, dtype=bool)
    for part in parts:
        if not part.granular:
            serving |= part.home & near
            reached = roots if part.closed is None else roots & ~part.closed
            serving[[
                row for row in part.away if reached[sharing[row].rows].any()]] = True
    having = None if names is None else filters.with_any_trait(snapshot, names)
    return serving if having is None else serving & having


def format_amount(snapshot: CapacitySnapshot, class_id: int, wanted: int) -> str:
    """Return an amount as the query has it: ``VCPU:4``."""
    return f"{snapshot.names.class_names[class_id]}:{wanted}"


def format_part(snapshot: CapacitySnapshot, wanted: RequestPart) -> str:
    """Return what a part is in the words of the query."""
    if wanted.granular:
        return f"group {wanted.suffix}"
    return ",".join(format_amount(snapshot, *each) for each in wanted.resources.items())


def _format_prefix(step: FilterStep) -> str:
    """Return which group a filter is about, as the beginning of a sentence."""
    if step.group:
        return f"group {step.group}: "
    return "group without suffix: " if step.group == "" or step.filter == filters.TRAITS else ""


def _explain_no_provider(
    snapshot: CapacitySnapshot, step: FilterStep, scope: Mask, left: str
) -> str:
    """Say why a filter of a group left nothing of the providers in ``scope``."""
    noun = _find_noun(snapshot, np.flatnonzero(scope))
    wanted = step.wanted
    if step.filter == filters.RESOURCES:
        class_id, number = wanted
        return _explain_no_room(
            snapshot, class_id, number, scope, lambda noun: f"no {noun}{left} has")
    if step.filter == filters.NOTHING:
        return "it asks for nothing: without resources, it needs required or member_of"
    if step.filter == filters.IN_TREE:
        row = snapshot.layout.row_of_uuid.get(wanted)
        if row is None:
            return f"in_tree names {wanted}, and there is no such provider"
        return f"no {noun}{left} is in the tree of {_get_name(snapshot, row)}"
    if step.filter == filters.AGGREGATES:
        names = " and of ".join(_format_one_of("aggregate", uuids) for uuids in wanted)
        return f"no {noun}{left} is a member of {names}"
    if step.filter == filters.NO_AGGREGATES:
        return f"every {noun}{left} is a member of {_format_one_of('forbidden aggregate', wanted)}"
    if step.filter == filters.NO_TRAITS:
        return f"every {noun}{left} has {_format_one_of('forbidden trait', wanted)}"
    return f"no {noun}{left} has {_format_one_of('trait', wanted)}"


def _explain_no_tree(
    snapshot: CapacitySnapshot, step: FilterStep, earlier: list[FilterStep], scope: Mask,
    allowed: Mask,
) -> str:
    """Say why a filter of trees left nothing.

    :param scope: the roots of the trees there were.
    :param allowed: rows that the unsuffixed group may use.
    """
    left = " that is left" if earlier else ""
    if step.filter == filters.ROOT_TRAITS:
        return f"no root provider{left} has {_format_one_of('trait', step.wanted)}"
    if step.filter == filters.NO_ROOT_TRAITS:
        return f"every root provider{left} has {_format_one_of('forbidden trait', step.wanted)}"
    if step.filter == filters.TRAITS:
        parts = [before.wanted for before in earlier if before.filter == filters.PART]
        noun = _find_noun(snapshot, np.flatnonzero(find_trait_bearers(snapshot, parts, scope)))
        return f"no {noun}{left} has {_format_one_of('trait', step.wanted)}"
    single = not snapshot.layout.trees and not snapshot.sharing_providers()
    if step.filter == filters.RESERVED:
        whole, several = ("host", "hosts") if single else (
            "tree of providers", "trees of providers")
        left = f"the only {whole} left is" if step.wanted == 1 else (
            f"all {step.wanted} {several} left are")
        return (f"{left} kept for reservations, and the request names no reservation's "
                "resource class, aggregate (member_of) or tree (in_tree)")
    whole = "host" if single else "tree of providers"
    others = ", ".join(
        format_part(snapshot, before.wanted)
        for before in earlier if before.filter == filters.PART)
    subject = f"no {whole} with {others}" if others else f"no {whole}{left}"
    wanted: RequestPart = step.wanted
    if wanted.granular:
        fits = "fits" if single else "has a provider that fits"
        return f"{subject} {fits} group {wanted.suffix}"
    (class_id, number), = wanted.resources.items()
    near = allowed & scope[snapshot.layout.root]
    for row, anchors in snapshot.sharing_providers().items():
        near[row] |= allowed[row] and bool(scope[anchors.rows].any())
    # Who shares and has room, but not for these trees, is not what is missing.
    near &= ~snapshot.column(class_id).find_fitting(number, snapshot.size)
    has = "has" if single else "has a provider with"
    return _explain_no_room(snapshot, class_id, number, near, lambda _: f"{subject} {has}")


def _explain_no_room(
    snapshot: CapacitySnapshot, class_id: int, wanted: int, scope: Mask,
    nobody_has: Callable[[str], str],
) -> str:
    """Say why no provider in ``scope`` can give an amount of a class at once.

    :param nobody_has: makes the beginning of a sentence, up to its verb, of what the
        providers are.
    """
    name = snapshot.names.class_names[class_id]
    rows = snapshot.column(class_id).rows
    rows = rows[scope[rows]]
    if not len(rows):
        return f"{nobody_has(_find_noun(snapshot, np.flatnonzero(scope)))} an inventory of {name}"
    noun = _find_noun(snapshot, rows)
    # The columns hold what is free only up to a bound; here it is exact.
    inventories = [(row, snapshot.entry(row).inventory(class_id)) for row in rows.tolist()]
    enough = [
        (row, inventory) for row, inventory in inventories if _compute_free(inventory) >= wanted]
    if not enough:
        row, most = max(inventories, key=lambda pair: _compute_free(pair[1]))
        most_free = _compute_free(most)
        rest = (f"the most is {most_free}, on {_get_name(snapshot, row)}" if most_free > 0
                else "none has any left")
        return f"{nobody_has(noun)} {wanted} free {name}; {rest}"
    have = f"1 {noun} has" if len(enough) == 1 else f"{len(enough)} {noun}s have"
    causes = ", and ".join(_list_causes(snapshot, wanted, enough))
    return (f"{nobody_has(noun)} {wanted} {name} to give at once; {have} so many free, "
            f"but {causes}")


def _list_causes(
    snapshot: CapacitySnapshot, wanted: int, inventories: Iterable[tuple[int, InventoryRow]]
) -> Iterable[str]:
    """Say which of max_unit, min_unit and step_size is in the way, and how far."""
    high: list[tuple[int, InventoryRow]] = []
    low: list[tuple[int, InventoryRow]] = []
    uneven: list[tuple[int, InventoryRow]] = []
    for row, inventory in inventories:
        group = (high if wanted > inventory.max_unit
                 else low if wanted < inventory.min_unit else uneven)
        group.append((row, inventory))
    if high:
        row, best = max(high, key=lambda pair: pair[1].max_unit)
        yield f"the highest max_unit is {best.max_unit} on {_get_name(snapshot, row)}"
    if low:
        row, best = min(low, key=lambda pair: pair[1].min_unit)
        yield f"the lowest min_unit is {best.min_unit} on {_get_name(snapshot, row)}"
    if uneven:
        row, best = uneven[0]
        others = f" and as unfit on {len(uneven) - 1} more" if len(uneven) > 1 else ""
        yield f"step_size is {best.step_size} on {_get_name(snapshot, row)}{others}"


def _compute_free(inventory: InventoryRow) -> int:
    return inventory.capacity - inventory.used


def _find_noun(snapshot: CapacitySnapshot, rows: Rows) -> str:
    """Return what these providers are: hosts, as far as one can tell, or something else."""
    sharing = snapshot.sharing_providers()
    hosts = (snapshot.layout.root[rows] == rows).all() and not any(
        row in sharing for row in rows.tolist())
    return "host" if hosts else "provider"


def _get_name(snapshot: CapacitySnapshot, row: int) -> str:
    return snapshot.entry(row).provider.name


def _format_one_of(noun: str, names: Collection[str]) -> str:
    """Return ``the trait A`` or ``one of the traits A, B``."""
    listed = ", ".join(sorted(names))
    return f"the {noun} {listed}" if len(names) == 1 else f"one of the {noun}s {listed}"
