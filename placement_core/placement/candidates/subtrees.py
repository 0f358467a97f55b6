"""same_subtree: the providers of some parts lie at or below one of them.

That one is the top. Which providers can be it is found before the search; each
then is a bit, and a row's mask says below which of them it lies. What is chosen
is on a good way as long as some top is above all of it and is chosen itself, or
can be by a part that is still to come.
Source: spec placement_api §4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from placement_core.placement.candidates import matching
from placement_core.placement.candidates.plans import Plan


class Subtree:
    """One same_subtree in one tree.

    :ivar masks: {row: the tops it lies at or below}; rows that lie below none
        are left out.
    :ivar bits: {row of a top: its bit}.
    :ivar rows: the rows of the tops, by bit.
    """

    __slots__ = ("bits", "masks", "rows")

    def __init__(self, plan: Plan, options: list[list[int]], numbers: tuple[int, ...]) -> None:
        lines = {row: plan.world.layout.ancestors(row)
                 for number in numbers for row in options[number]}
        below: dict[int, dict[int, list[int]]] = {}
        for number in numbers:
            rows: dict[int, list[int]] = defaultdict(list)
            for row in options[number]:
                for above in lines[row]:
                    if above in lines:
                        rows[above].append(row)
            below[number] = rows
        everywhere = set(lines).intersection(*below.values())
        tops = [top for top in sorted(everywhere)
                if _can_meet(plan, {number: below[number][top] for number in numbers})]
        self.rows = tops
        self.bits = {top: 1 << at for at, top in enumerate(tops)}
        self.masks: dict[int, int] = {}
        for row, line in lines.items():
            mask = 0
            for above in line:
                mask |= self.bits.get(above, 0)
            if mask:
                self.masks[row] = mask

    def holders(self, rows: Iterable[int]) -> int:
        """Return which tops are among the rows."""
        found = 0
        for row in rows:
            found |= self.bits.get(row, 0)
        return found


def _can_meet(plan: Plan, options: dict[int, list[int]]) -> bool:
    """Say whether parts fit into these rows, as far as is easily seen."""
    if plan.isolate and not matching.one_each(
            plan, [rows for number, rows in options.items() if plan.parts[number].granular]):
        return False
    needs: dict[int, int] = defaultdict(int)
    takers: dict[int, set[int]] = defaultdict(set)
    for number, rows in options.items():
        for class_id, amount in plan.contested[number]:
            needs[class_id] += amount
            takers[class_id].update(rows)
    return all(matching.room_for(plan, class_id, amount, takers[class_id])
               for class_id, amount in needs.items())
