"""The rules of combining the parts of a request, prepared once for each request."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search_budget import SearchBudget
from placement_core.placement.index.array_types import Amounts, Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot, ProviderEntry

#: Above this number of different sums, none are listed: they would cost more than they cut.
_MOST_SUMS = 1024


@dataclasses.dataclass(slots=True)
class Plan:
    """The parts of a request and the rules between them.

    :ivar parts: unsuffixed parts first.
    :ivar isolate: no two granular parts on one provider.
    :ivar one_per_tree: no two providers of one tree (below 1.29).
    :ivar subtrees: for each same_subtree the numbers of its parts.
    :ivar required: trait ids, one set for each condition on the unsuffixed
        parts together.
    :ivar contested: for each part, the classes that other parts want too,
        with its amount: their sum has to fit where they meet.
    :ivar demand: the most that can meet on a provider, by contested class.
    :ivar sums: the sums that can meet on a provider, by contested class, sorted;
        none where there would be very many.
    :ivar independent_groups: for each part the number of its independent group: no
        rule relates parts of different ones.
    :ivar has_strict_rules: there are rules beside ``isolate`` and ``contested``.
    :ivar has_rules: a provider for each part could still be a wrong answer.
    :ivar budget: what the search has cost.
    :ivar classes: resource class ids that the request names; so ``traits`` and
        ``aggregates``.
    """

    snapshot: CapacitySnapshot
    parts: list[RequestPart]
    isolate: bool
    one_per_tree: bool
    subtrees: list[tuple[int, ...]]
    required: list[frozenset[int]]
    contested: list[tuple[tuple[int, int], ...]]
    demand: Mapping[int, int]
    sums: Mapping[int, Sequence[int]]
    independent_groups: list[int]
    classes: frozenset[int]
    traits: frozenset[int]
    aggregates: frozenset[str]
    has_strict_rules: bool = dataclasses.field(init=False)
    has_rules: bool = dataclasses.field(init=False)
    budget: SearchBudget
    # These two live as long as the search for one request, which bounds them.
    _rooms: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    _classes: dict[Hashable, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def build(
        cls, snapshot: CapacitySnapshot, request: CandidatesRequest, parts: list[RequestPart]
    ) -> Plan:
        """Prepare the combination of ``parts``."""
        wanted = Counter(class_id for part in parts for class_id in part.resources)
        contested = _find_contested(parts, wanted)
        demand = _add_up(contested)
        subtrees = _find_subtrees(request, parts)
        required = [
            frozenset(snapshot.names.trait_ids[name] for name in names)
            for group in request.groups if not group.suffix for names in group.traits.required]
        isolate = request.isolate and sum(part.granular for part in parts) > 1
        one_per_tree = not request.nested and bool(snapshot.layout.trees)
        numbers = range(len(parts))
        ties: list[Sequence[int]] = [
            *subtrees,
            *([number for number in numbers if class_id in parts[number].resources]
              for class_id in demand),
            [number for number in numbers if isolate and parts[number].granular],
            [number for number in numbers if required and not parts[number].granular],
            [number for number in numbers if one_per_tree],
        ]
        return cls(
            snapshot=snapshot, parts=parts, isolate=isolate, one_per_tree=one_per_tree,
            subtrees=subtrees, independent_groups=_find_independent_groups(len(parts), ties),
            required=required, contested=contested, demand=demand,
            sums={class_id: _sum_amounts(
                [amount for pairs in contested for each, amount in pairs if each == class_id])
                for class_id in demand},
            classes=frozenset(wanted),
            traits=frozenset(snapshot.names.trait_ids[name] for name in _list_traits(request)),
            aggregates=frozenset(_list_aggregates(request)),
            budget=SearchBudget(request.most_dead_ends))

    def __post_init__(self) -> None:
        self.has_strict_rules = bool(self.one_per_tree or self.subtrees or self.required)
        self.has_rules = bool(self.has_strict_rules or self.isolate or self.demand)

    def mask_of_any_trait(self, traits: frozenset[int]) -> Mask:
        """Return which rows have one of the traits, as booleans."""
        met = np.zeros(self.snapshot.size, dtype=bool)
        for trait_id in traits:
            met |= self.snapshot.rows_with_trait(trait_id).mask(self.snapshot.size)
        return met

    def coverage(self, entry: ProviderEntry) -> int:
        """Return which conditions of ``required`` a provider meets, as bits."""
        bits = 0
        for number, traits in enumerate(self.required):
            if not traits.isdisjoint(entry.traits):
                bits |= 1 << number
        return bits

    def useful_room(self, row: int, class_id: int) -> int:
        """Return how much of a contested class that is asked for a row can take at once.

        That is the largest sum of asked amounts that there is room for.
        """
        room = self._rooms.get((row, class_id))
        if room is None:
            inventory = self.snapshot.entry(row).inventory(class_id)
            room = min(inventory.capacity - inventory.used, inventory.max_unit)
            sums = self.sums[class_id]
            if sums:
                room = sums[bisect.bisect_right(sums, room) - 1]
            self._rooms[row, class_id] = room
        return room

    def useful_rooms(self, rows: Rows, class_id: int) -> Amounts:
        """Return ``useful_room`` of rows; what is more than is asked for counts as that."""
        column = self.snapshot.column(class_id)
        at = np.searchsorted(column.rows, rows)
        room = np.minimum(column.free[at], column.max_unit[at])
        sums = np.array(self.sums[class_id] or [0])
        if len(sums) > 1:
            return sums[np.searchsorted(sums, room, side="right") - 1]
        return np.minimum(room, self.demand[class_id])

    def provider_class(self, row: int) -> int:
        """Return a number for all of a provider that the request can see.

        It is the same for those that the request cannot tell apart.
        """
        entry = self.snapshot.entry(row)
        attributes = (entry.inventories, entry.traits, entry.aggregates)
        number = self._classes.get(attributes)
        if number is None:
            visible = (
                tuple(inventory for inventory in entry.inventories
                      if inventory.class_id in self.classes),
                entry.traits & self.traits, entry.aggregates & self.aggregates)
            number = self._classes.setdefault(visible, len(self._classes))
            self._classes[attributes] = number
        return number


def _find_independent_groups(count: int, ties: list[Sequence[int]]) -> list[int]:
    """Return for each of ``count`` parts the number of its independent group.

    :param ties: parts that one rule relates, for each rule.
    """
    groups = list(range(count))
    for tied in ties:
        joined = {groups[number] for number in tied}
        groups = [min(joined) if group in joined else group for group in groups]
    return groups


def _sum_amounts(amounts: list[int]) -> list[int]:
    """Return what some of the amounts can add up to, sorted; nothing if that is a lot."""
    sums = {0}
    for amount in amounts:
        sums |= {total + amount for total in sums}
        if len(sums) > _MOST_SUMS:
            return []
    return sorted(sums)


def _find_contested(
    parts: Sequence[RequestPart], wanted: Mapping[int, int]
) -> list[tuple[tuple[int, int], ...]]:
    """Return for each part the classes that other parts want too, with its amount.

    :param wanted: {class id: how many parts want it}.
    """
    return [
        tuple((class_id, amount) for class_id, amount in part.resources.items()
              if wanted[class_id] > 1)
        for part in parts]


def _add_up(contested: Sequence[Sequence[tuple[int, int]]]) -> dict[int, int]:
    """Return what all parts together want of each contested class."""
    demand: Counter[int] = Counter()
    for pairs in contested:
        for class_id, amount in pairs:
            demand[class_id] += amount
    return demand


def _find_subtrees(
    request: CandidatesRequest, parts: Sequence[RequestPart]
) -> list[tuple[int, ...]]:
    """Return for each same_subtree the numbers of its parts, where it ties several."""
    subtrees = [
        tuple(number for number, part in enumerate(parts) if part.suffix in suffixes)
        for suffixes in request.same_subtree]
    return [numbers for numbers in subtrees if len(numbers) > 1]


def _list_traits(request: CandidatesRequest) -> set[str]:
    """Return the traits that a request names."""
    return {name for group in request.groups
            for names in (*group.traits.required, group.traits.forbidden) for name in names}


def _list_aggregates(request: CandidatesRequest) -> set[str]:
    """Return the uuids of aggregates that a request names."""
    return {uuid for group in request.groups
            for uuids in (*group.aggregates.member_of, group.aggregates.forbidden)
            for uuid in uuids}
