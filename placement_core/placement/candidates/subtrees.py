"""same_subtree: the providers of some parts lie at or below one of them.

That one is the top. Which providers can be it is found before the search; each
then is a bit, and a row's mask says below which of them it lies. A combination
has one top, and one part that is the first to be served by it: the search
chooses both before the parts, because they decide where these may lie.
Source: spec placement_api §4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from placement_core.placement.candidates import matching
from placement_core.placement.candidates.plans import Plan

#: The row of a top, and the number of the first part that it serves.
Top = tuple[int, int]


class Subtree:
    """One same_subtree in one tree.

    :ivar rows: the rows of the tops.
    :ivar masks: {row: the tops it lies at or below}; rows that lie below none
        are left out.
    :ivar below: for each part {row of a top: options at or below it}.
    """

    __slots__ = ("_bits", "_numbers", "_options", "below", "masks", "rows")

    def __init__(self, plan: Plan, options: list[list[int]], numbers: tuple[int, ...]) -> None:
        self._numbers = numbers
        self._options: dict[int, set[int]] = {}
        lines = {row: plan.snapshot.layout.ancestors(row)
                 for number in numbers for row in options[number]}
        below: dict[int, dict[int, list[int]]] = {}
        self.below = below
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
        self._bits = {top: 1 << at for at, top in enumerate(tops)}
        self.masks: dict[int, int] = {}
        for row, line in lines.items():
            mask = 0
            for above in line:
                mask |= self._bits.get(above, 0)
            if mask:
                self.masks[row] = mask

    def narrow(self, options: list[list[int]]) -> None:
        """Choose tops from these options only: what every same_subtree left of them."""
        self._options = {number: set(options[number]) for number in self._numbers}
        self.rows = [top for top in self.rows
                     if any(top in rows for rows in self._options.values())]

    def list_choices(self, tops: Iterable[int]) -> Iterator[Top]:
        """Return each top with each part that it can be the first to serve."""
        for top in tops:
            for number in self._numbers:
                if top in self._options[number]:
                    yield top, number

    def allows(self, top: Top, number: int, row: int) -> bool:
        """Say whether a row may serve a part when the top is chosen."""
        above, holder = top
        if row == above:
            return number >= holder
        return number != holder and bool(self.masks.get(row, 0) & self._bits[above])


def _can_meet(plan: Plan, options: dict[int, list[int]]) -> bool:
    """Say whether parts fit into these rows, as far as is easily seen."""
    if plan.isolate and not matching.can_have_one_each(
            plan, [rows for number, rows in options.items() if plan.parts[number].granular]):
        return False
    needs: dict[int, int] = defaultdict(int)
    takers: dict[int, set[int]] = defaultdict(set)
    for number, rows in options.items():
        for class_id, amount in plan.contested[number]:
            needs[class_id] += amount
            takers[class_id].update(rows)
    return all(matching.have_room(plan, class_id, amount, takers[class_id])
               for class_id, amount in needs.items())
