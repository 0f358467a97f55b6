"""What the combination step has to heed, prepared once for each request."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping

from placement_core.placement.candidates.filters import Part
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.index.world import Entry, World


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
    :ivar classes: resource class ids that the request names; so ``traits`` and
        ``aggregates``.
    """

    world: World
    parts: list[Part]
    isolate: bool
    one_per_tree: bool
    subtrees: list[tuple[int, ...]]
    required: list[frozenset[int]]
    contested: list[tuple[tuple[int, int], ...]]
    demand: Mapping[int, int]
    classes: frozenset[int]
    traits: frozenset[int]
    aggregates: frozenset[str]

    @classmethod
    def of(cls, world: World, request: CandidatesRequest, parts: list[Part]) -> Plan:
        """Prepare the combination of ``parts``."""
        wanted = Counter(class_id for part in parts for class_id in part.resources)
        contested = [
            tuple((class_id, amount) for class_id, amount in part.resources.items()
                  if wanted[class_id] > 1)
            for part in parts]
        demand: Counter[int] = Counter()
        for pairs in contested:
            for class_id, amount in pairs:
                demand[class_id] += amount
        subtrees = [
            tuple(number for number, part in enumerate(parts) if part.suffix in suffixes)
            for suffixes in request.same_subtree]
        required = [
            frozenset(world.names.trait_ids[name] for name in names)
            for group in request.groups if not group.suffix for names in group.traits.required]
        traits = {name for group in request.groups
                  for names in (*group.traits.required, group.traits.forbidden)
                  for name in names}
        return cls(
            world=world, parts=parts,
            isolate=request.isolate and sum(part.granular for part in parts) > 1,
            one_per_tree=not request.nested and bool(world.layout.trees),
            subtrees=[numbers for numbers in subtrees if len(numbers) > 1],
            required=required, contested=contested, demand=demand, classes=frozenset(wanted),
            traits=frozenset(world.names.trait_ids[name] for name in traits),
            aggregates=frozenset(
                uuid for group in request.groups
                for uuids in (*group.aggregates.member_of, group.aggregates.forbidden)
                for uuid in uuids))

    @property
    def has_rules(self) -> bool:
        """Say whether a provider for each part could still be a wrong answer."""
        return bool(
            self.isolate or self.one_per_tree or self.subtrees or self.required or self.demand)

    def coverage(self, entry: Entry) -> int:
        """Return which conditions of ``required`` a provider meets, as bits."""
        bits = 0
        for number, traits in enumerate(self.required):
            if not traits.isdisjoint(entry.traits):
                bits |= 1 << number
        return bits

    def room(self, entry: Entry, class_id: int) -> int:
        """Return how much of a contested class a provider can take at once."""
        inventory = entry.inventory(class_id)
        return min(inventory.capacity - inventory.used, inventory.max_unit)

    def look(self, entry: Entry) -> Hashable:
        """Return all of a provider that the request can see, to compare by."""
        return (
            tuple(each for each in entry.inventories if each.class_id in self.classes),
            entry.traits & self.traits, entry.aggregates & self.aggregates)
