"""What stops the next copy of a request: for each reason, how many hosts.

A host that a filter leaves out counts for the first such filter; any other for the parts of the
request that it has no room for once all copies are placed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from placement_core.placement.candidates import explain, filters, reasons
from placement_core.placement.candidates.filters import FilterStep
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Choices
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room.copies import Copies

RESOURCES = "resources"
COMBINATIONS = "combinations"
_FENCE = ("fence", "kept for reservations")

#: A parameter of the query and its value.
_Filter = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
    """Why some hosts take no other copy.

    :ivar filter: ``resources``: they have no room for some parts of the request;
        ``combinations``: they have room for each part, but not for all at once; else the
        parameter of the query that leaves them out.
    :ivar value: of the parameter; the parts that are lacking, separated by commas.
    """

    filter: str
    value: str
    hosts: int


def find(
    snapshot: CapacitySnapshot, request: CandidatesRequest, steps: list[FilterStep],
    choices: Choices, copies: Copies,
) -> list[Obstacle]:
    """Return what stops the next copy, the most frequent reason first.

    :param steps: what the filters left.
    :param copies: how often the request fits into the trees of ``choices``.
    """
    counts: Counter[_Filter] = Counter()
    placed = np.zeros(snapshot.size, dtype=bool)
    placed[choices.anchors] = True
    left = _find_hosts(snapshot, placed)
    for filter_, passing in _list_filters(snapshot, request, steps):
        dropped = left & ~passing & ~placed
        counts[filter_] += int(np.count_nonzero(dropped))
        left &= ~dropped
    counts.update(_count_lacking(snapshot, choices, copies, left))
    found = [Obstacle(filter_, value, hosts)
             for (filter_, value), hosts in counts.items() if hosts]
    return sorted(found, key=lambda each: (-each.hosts, each.filter, each.value))


def _find_hosts(snapshot: CapacitySnapshot, placed: Mask) -> Mask:
    """Return the roots of trees; of providers that only share, none that takes no copies."""
    layout = snapshot.layout
    hosts: Mask = layout.root == np.arange(snapshot.size)
    for row in snapshot.sharing_providers():
        if row not in layout.trees:
            hosts[row] &= placed[row]
    return hosts


def _count_lacking(
    snapshot: CapacitySnapshot, choices: Choices, copies: Copies, hosts: Mask
) -> Counter[_Filter]:
    """Count the hosts by the parts of the request that they have no room for."""
    parts = choices.plan.parts
    names = [reasons.format_part(snapshot, part) for part in parts]
    lacking = ~np.stack([
        filters.find_reached_roots(snapshot, part, part.home, part.away) for part in parts])
    lacking[:, choices.anchors] = copies.exhausted
    counts: Counter[_Filter] = Counter()
    for numbers, count in _count_patterns(lacking[:, hosts]):
        value = ",".join(names[number] for number in numbers)
        counts[RESOURCES if value else COMBINATIONS, value] += count
    return counts


def _count_patterns(lines: Mask) -> Iterator[tuple[list[int], int]]:
    """Yield the combinations of lines that are true in some column, and in how many it is."""
    patterns: list[tuple[list[int], Rows]] = [([], np.arange(lines.shape[1]))]
    for number, line in enumerate(lines):
        split = []
        for numbers, columns in patterns:
            there = line[columns]
            split += [([*numbers, number], columns[there]), (numbers, columns[~there])]
        patterns = [(numbers, columns) for numbers, columns in split if len(columns)]
    for numbers, columns in patterns:
        if len(columns):
            yield numbers, len(columns)


def _list_filters(
    snapshot: CapacitySnapshot, request: CandidatesRequest, steps: Iterable[FilterStep]
) -> Iterator[tuple[_Filter, Mask]]:
    """Return the filters that are not about amounts, each with the roots that pass it."""
    steps = list(steps)
    if any(step.filter == filters.RESERVED for step in steps):
        reserved = filters.find_reserved(snapshot, request)
        assert reserved is not None
        yield _FENCE, ~reserved
    for step in steps:
        if step.filter == filters.TRAITS:
            having = filters.with_any_trait(snapshot, step.wanted)
            assert having is not None
            yield explain.describe_filter(snapshot, step), _reach(snapshot, having)
    before: dict[str | None, Mask] = {}
    everybody = snapshot.layout.root >= 0
    for step in steps:
        earlier, passing = before.get(step.group, everybody), step.mask
        if step.group is not None:
            earlier, passing = _reach(snapshot, earlier), _reach(snapshot, passing)
        if step.filter not in (filters.RESOURCES, filters.PART, filters.RESERVED):
            # Whoever did not get so far was stopped by something else.
            yield explain.describe_filter(snapshot, step), passing | ~earlier
        if step.group != "" or step.filter != filters.RESOURCES:
            # The unsuffixed group may take each class from another provider.
            before[step.group] = step.mask


def _reach(snapshot: CapacitySnapshot, rows: Mask) -> Mask:
    """Return the roots of the trees that some rows are in, or share with."""
    reached = np.zeros(snapshot.size, dtype=bool)
    reached[snapshot.layout.root[rows]] = True
    for row, roots in snapshot.sharing_providers().items():
        if rows[row]:
            reached[roots.rows] = True
    return reached
