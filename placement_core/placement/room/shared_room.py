"""Divides what sharing providers have among the trees they serve.

Trees that the same sharing providers serve are alike, so a maximum flow from such groups of trees
to sharing providers says how much all of them get.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Sequence

import numpy as np

from placement_core.placement.index.array_types import Mask
from placement_core.placement.room.part_room import Counts, PartRoom


@dataclasses.dataclass(frozen=True, slots=True)
class Division:
    """How many copies each tree gets.

    :ivar copies: by tree.
    :ivar most: there is no division with more copies in all.
    :ivar short: for each part the trees whose sharing providers have no more of it.
    """

    copies: Counts
    most: int
    short: list[Mask]


def divide(copies: Counts, parts: Sequence[PartRoom]) -> Division:
    """Divide what is shared, so that as many copies as possible can be placed.

    One part that is shared is divided in the best way. Several are divided one after the
    other, which need not be the best.

    :param copies: for each tree the most it could have.
    """
    most = int(copies.sum())
    left, short = copies, []
    for part in parts:
        if len(part.pools):
            served, short_of_part = _serve(left, part)
            most = min(most, int((served if left is copies else _serve(copies, part)[0]).sum()))
            left = served
        else:
            short_of_part = np.zeros(len(copies), dtype=bool)
        short.append(short_of_part)
    return Division(left, most, short)


def _serve(copies: Counts, part: PartRoom) -> tuple[Counts, Mask]:
    """Return how many of its copies each tree can have one part for, and who would need more."""
    needs = np.maximum(copies - part.own, 0)
    totals = np.zeros(len(part.kinds), dtype=np.int64)
    np.add.at(totals, part.kind_of_tree, needs)
    served = _maximize_flow(totals.tolist(), part.pools.tolist(), part.kinds.tolist())
    copies = copies.copy()
    short = np.zeros(len(copies), dtype=bool)
    for kind, missing in enumerate((totals - served).tolist()):
        if missing:
            trees = np.flatnonzero((part.kind_of_tree == kind) & (needs > 0))
            short[trees] = True
            # The last trees go without.
            kept = np.minimum(np.cumsum(needs[trees]), int(totals[kind]) - missing)
            copies[trees] -= needs[trees] - np.diff(kept, prepend=0)
    return copies, short


def _maximize_flow(
    needs: list[int], supplies: list[int], reach: list[list[bool]]
) -> list[int]:
    """Return how much each consumer gets where all of them get as much as possible.

    :param reach: for each consumer, which supplies it can use.
    """
    flow = [[0] * len(supplies) for _ in needs]
    unmet, spare = list(needs), list(supplies)
    while (path := _find_path(unmet, spare, reach, flow)) is not None:
        first, last = path[0][0], path[-1][1]
        given_up = [(consumer, supply)
                    for (_, supply), (consumer, _) in itertools.pairwise(path)]
        amount = min([unmet[first], spare[last], *(
            flow[consumer][supply] for consumer, supply in given_up)])
        for consumer, supply in given_up:
            flow[consumer][supply] -= amount
        for consumer, supply in path:
            flow[consumer][supply] += amount
        unmet[first] -= amount
        spare[last] -= amount
    return [sum(amounts) for amounts in flow]


def _find_path(
    unmet: list[int], spare: list[int], reach: list[list[bool]], flow: list[list[int]]
) -> list[tuple[int, int]] | None:
    """Return how a consumer gets more: each (consumer, supply) takes what the next one gives up.

    That is one of the shortest ways; None: there is none.
    """
    before: dict[int, tuple[int, int] | None] = {
        consumer: None for consumer, need in enumerate(unmet) if need}
    waiting = deque(before)
    seen: set[int] = set()
    while waiting:
        consumer = waiting.popleft()
        for supply, reached in enumerate(reach[consumer]):
            if not reached or supply in seen:
                continue
            seen.add(supply)
            if spare[supply]:
                return _trace_back(before, (consumer, supply))
            for other, amounts in enumerate(flow):
                if amounts[supply] and other not in before:
                    before[other] = (consumer, supply)
                    waiting.append(other)
    return None


def _trace_back(
    before: dict[int, tuple[int, int] | None], last: tuple[int, int]
) -> list[tuple[int, int]]:
    path: list[tuple[int, int]] = []
    step: tuple[int, int] | None = last
    while step is not None:
        path.append(step)
        step = before[step[0]]
    return path[::-1]
