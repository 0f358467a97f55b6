"""Upper bounds of how many copies can be packed into a tree.

Any weights of the inventories yield one: what is there, weighed, divided by the least that a copy
takes, weighed alike. Weights are chosen so that for each provider only its scarcest class counts,
or for all only one class.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

#: What an inventory is: the row of its provider, and its class.
Slot = tuple[int, int]
#: What a combination takes: {slot: amount}.
Use = dict[Slot, int]


class Bounds:
    """The bounds of what some combinations can do.

    :param uses: what each combination takes; of each class all take the same in all.
    """

    def __init__(self, uses: Sequence[Use]) -> None:
        self._uses = uses
        self._slots = _collect_slots(uses)
        self._totals: Counter[int] = Counter()
        for (_, class_id), amount in uses[0].items():
            self._totals[class_id] += amount
        scale = math.lcm(*self._totals.values())
        #: What a copy takes of each class weighs the same.
        self._weights = {class_id: scale // total for class_id, total in self._totals.items()}
        self._lightest: dict[frozenset[Slot], int] = {}

    def allow(self, free: Mapping[Slot, int], copies: int) -> bool:
        """Say whether there may be room for so many copies."""
        usable = {slot: free[slot] // unit * unit for slot, (_, unit) in self._slots.items()}
        return all(self._allows_by_class(usable, copies, class_id)
                   for class_id in self._totals) and (
                       len(self._totals) == 1 or self._allows_by_provider(usable, copies))

    def _allows_by_class(self, usable: Mapping[Slot, int], copies: int, class_id: int) -> bool:
        """Say whether there is enough of one class, on enough providers."""
        slots = [slot for slot in self._slots if slot[1] == class_id]
        if sum(usable[slot] for slot in slots) < copies * self._totals[class_id]:
            return False
        # Each copy may need several providers at once.
        count = min(sum(slot[1] == class_id for slot in use) for use in self._uses)
        return count * copies <= sum(
            min(usable[slot] // self._slots[slot][0], copies) for slot in slots)

    def _allows_by_provider(self, usable: Mapping[Slot, int], copies: int) -> bool:
        """Say whether there is enough of the scarcest class of each provider."""
        scarcest: dict[int, tuple[int, Slot]] = {}
        for slot in self._slots:
            weight = usable[slot] * self._weights[slot[1]]
            if slot[0] not in scarcest or weight < scarcest[slot[0]][0]:
                scarcest[slot[0]] = weight, slot
        slots = frozenset(slot for _, slot in scarcest.values())
        if slots not in self._lightest:
            self._lightest[slots] = min(
                sum(amount * self._weights[slot[1]] for slot, amount in use.items()
                    if slot in slots) for use in self._uses)
        return copies * self._lightest[slots] <= sum(weight for weight, _ in scarcest.values())


def _collect_slots(uses: Iterable[Use]) -> dict[Slot, tuple[int, int]]:
    """Return for each slot the least amount taken there, and what all amounts are multiples of."""
    amounts: dict[Slot, set[int]] = {}
    for use in uses:
        for slot, amount in use.items():
            amounts.setdefault(slot, set()).add(amount)
    return {slot: (min(taken), math.gcd(*taken)) for slot, taken in amounts.items()}
