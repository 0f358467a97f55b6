"""Quick proofs that parts cannot fit into some rows together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from placement_core.placement.candidates.plans import Plan


def have_room(plan: Plan, class_id: int, amount: int, rows: Iterable[int]) -> bool:
    """Say whether rows together have room for an amount of a contested class."""
    for row in rows:
        amount -= plan.useful_room(row, class_id)
        if amount <= 0:
            return True
    return amount <= 0


def can_have_one_each(plan: Plan, options: Sequence[Sequence[int]]) -> bool:
    """Say whether every part can have a row for itself: a bipartite matching.

    :param options: for each part the rows it can have.
    """
    owner: dict[int, int] = {}
    rows_of: dict[int, int] = {}
    for newcomer in range(len(options)):
        reached: dict[int, int] = {}
        waiting = deque([newcomer])
        free: int | None = None
        while waiting and free is None:
            number = waiting.popleft()
            for row in options[number]:
                plan.budget.steps += 1
                if row in reached:
                    continue
                reached[row] = number
                if row not in owner:
                    free = row
                    break
                waiting.append(owner[row])
        if free is None:
            return False
        # Everybody on the way moves on, so that the newcomer gets a place.
        while free is not None:
            number = reached[free]
            owner[free] = number
            rows_of[number], free = free, rows_of.get(number)
    return True
