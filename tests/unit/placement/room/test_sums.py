"""Sums of room against sums by hand, over random small clouds."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import fixtures
import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.candidates.requests import AggregateFilter, TraitFilter
from placement_core.placement.index.records import InventoryRow, ProviderRow
from placement_core.placement.room import groups, promises, sums
from placement_core.placement.room.groups import RoomFilter
from placement_core.placement.room.promises import TreePromises
from placement_core.placement.room.sums import Room
from tests import base, examples, snapshots

_AGGREGATES = (101, 102, 103)
_AMOUNTS = (0, 1, 7, 64, 2**31 - 1, 2**62, 2**63 - 1, 10**45)


class Cloud:
    """A random forest of providers, and what can be said of them by hand."""

    def __init__(self, chance: random.Random, count: int) -> None:
        self.rows = [self._make(chance, number) for number in range(1, count + 1)]
        self.by_id = {row.id: row for row in self.rows}
        self.snapshot = snapshots.build(*self.rows)
        self.uuids = {row.id: row.uuid for row in self.rows}

    @staticmethod
    def _make(chance: random.Random, number: int) -> ProviderRow:
        return snapshots.provider(
            number,
            *(snapshots.inventory(
                name, chance.choice(_AMOUNTS), chance.choice((0, 0, 1, 5, 100)),
                min_unit=chance.choice((1, 1, 3)), max_unit=chance.choice((1, 8, 2**31 - 1)),
                step_size=chance.choice((1, 2, 5)), total=chance.randint(0, 2**31 - 1),
                reserved=chance.choice((0, 0, 4)))
              for name in snapshots.CLASSES if chance.random() < 0.6),
            parent=chance.randint(1, number - 1) if number > 1 and chance.random() < 0.5 else None,
            traits=[name for name in snapshots.TRAITS if chance.random() < 0.3],
            aggregates=[each for each in _AGGREGATES if chance.random() < 0.3])

    def root(self, row: ProviderRow) -> ProviderRow:
        while row.parent_id is not None:
            row = self.by_id[row.parent_id]
        return row

    def traits(self, row: ProviderRow) -> set[str]:
        names = snapshots.NAMES.trait_names
        return {names[id_] for id_ in row.traits | self.root(row).traits}

    def aggregates(self, row: ProviderRow) -> set[str]:
        return set(row.aggregates | self.root(row).aggregates)

    def matches(self, row: ProviderRow, wanted: RoomFilter) -> bool:
        traits, aggregates = self.traits(row), self.aggregates(row)
        classes = {snapshots.NAMES.class_names[each.class_id] for each in row.inventories}
        return (
            (wanted.resource_class is None or wanted.resource_class in classes)
            and (wanted.in_tree is None or self.root(row) is self.root(next(
                each for each in self.rows if each.uuid == wanted.in_tree)))
            and all(traits & names for names in wanted.traits.required)
            and not traits & wanted.traits.forbidden
            and all(aggregates & uuids for uuids in wanted.aggregates.member_of)
            and not aggregates & wanted.aggregates.forbidden)

    def room(self, rows: Iterable[ProviderRow]) -> dict[str, Room]:
        """Add up, one inventory after the other."""
        found: dict[str, Room] = {}
        for row in rows:
            for inventory in row.inventories:
                name = snapshots.NAMES.class_names[inventory.class_id]
                before = found.get(name, Room(0, 0, 0, 0, 0, 0, 0, 0))
                found[name] = Room(
                    before.total + inventory.total, before.reserved + inventory.reserved,
                    before.capacity + inventory.capacity, before.used + inventory.used, 0, 0,
                    before.free + _free(inventory), max(before.largest, _largest(inventory)))
        return found

    def keys(self, row: ProviderRow, by: str) -> set[str]:
        if by == "root":
            return {self.root(row).uuid}
        return self.aggregates(row) if by == "aggregate" else self.traits(row)

    def measure(self, of_groups: Iterable[groups.Group]) -> dict[str, dict[str, Room]]:
        """Return what the code under test adds up."""
        found = list(of_groups)
        names = snapshots.NAMES.class_names
        rooms = sums.sum_groups(sums.build_columns(self.snapshot, {}),
                                [group.rows for group in found], self.snapshot.size)
        return {group.key: {names[id_]: room for id_, room in of_group.items()}
                for group, of_group in zip(found, rooms, strict=True)}


def _free(inventory: InventoryRow) -> int:
    return max(inventory.capacity - inventory.used, 0)


def _largest(inventory: InventoryRow) -> int:
    most = min(_free(inventory), inventory.max_unit)
    most = next((amount for amount in range(most, max(most - 10, 0), -1)
                 if amount % inventory.step_size == 0), 0)
    return most if most >= inventory.min_unit else 0


def _draw_filter(chance: random.Random, cloud: Cloud) -> RoomFilter:
    def some(values: Iterable[str]) -> frozenset[str]:
        return frozenset(chance.sample(list(values), chance.randint(1, 2)))

    traits, uuids = snapshots.TRAITS, list(map(snapshots.uuid_of, _AGGREGATES))
    return RoomFilter(
        chance.choice((None, None, *snapshots.CLASSES)),
        chance.choice((None, None, chance.choice(cloud.rows).uuid)),
        chance.choice((TraitFilter(), TraitFilter((some(traits),)),
                       TraitFilter(forbidden=some(traits)))),
        chance.choice((AggregateFilter(), AggregateFilter((some(uuids), some(uuids))),
                       AggregateFilter(forbidden=some(uuids)))))


class TestSums(base.TestCase):
    @examples.draw(150)
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(1, 12))
    def test_groups(self, chance: random.Random, count: int) -> None:
        """Every sum of every group of what matches is as by hand, whatever a batch holds."""
        cloud = Cloud(chance, count)
        wanted = _draw_filter(chance, cloud)
        mask = groups.find_rows(cloud.snapshot, wanted)
        matching = [row for row in cloud.rows if cloud.matches(row, wanted)]
        self.assertEqual(
            {row.uuid for row in matching},
            {cloud.snapshot.entry(row).provider.uuid for row in np.flatnonzero(mask)})
        most = chance.choice((1, 3, 200_000))
        with fixtures.MonkeyPatch("placement_core.placement.room.sums._MOST_ROWS", most):
            self.assertEqual(
                {"all": cloud.room(matching)},
                cloud.measure([groups.Group("all", np.flatnonzero(mask))]))
            for by in ("root", "aggregate", "trait"):
                keys = sorted({key for row in matching for key in cloud.keys(row, by)})
                found = groups.list_groups(cloud.snapshot, mask, by)
                self.assertEqual(keys, [group.key for group in found])
                self.assertEqual(
                    {key: cloud.room(row for row in matching if key in cloud.keys(row, by))
                     for key in keys}, cloud.measure(found))
                if keys:
                    marker, limit = chance.choice(keys), chance.randint(1, 3)
                    self.assertEqual(
                        [key for key in keys if key > marker][:limit],
                        [group.key for group in groups.list_groups(
                            cloud.snapshot, mask, by, marker=marker, limit=limit)])

    def test_nothing(self) -> None:
        snapshot = snapshots.build()
        mask = groups.find_rows(snapshot, RoomFilter())
        for by in ("root", "aggregate", "trait"):
            self.assertEqual([], groups.list_groups(snapshot, mask, by))
        self.assertEqual([{}], sums.sum_groups(
            sums.build_columns(snapshot, {}), [np.flatnonzero(mask)], snapshot.size))

    @examples.draw(150)
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(1, 8))
    def test_refreshed(self, chance: random.Random, count: int) -> None:
        """Columns that are kept after a change are as those that are built anew."""
        cloud = Cloud(chance, count)
        snapshot, columns = cloud.snapshot, sums.build_columns(cloud.snapshot, {})
        for number in range(1000, 1006):
            row = chance.choice(cloud.rows)
            same = [each for each in row.inventories if chance.random() < 0.8]
            if same and chance.random() < 0.7:
                at = chance.randrange(len(same))
                field = chance.choice(("total", "reserved", "used", "max_unit"))
                same[at] = same[at]._replace(**{field: chance.randint(1, 9)})
            changes = {row.id: dataclasses.replace(row, inventories=tuple(same))}
            if chance.random() < 0.5:
                # A new provider takes the place of one that is gone, or has the last one.
                changes[number] = dataclasses.replace(
                    row, id=number, uuid=snapshots.uuid_of(number), name=f"new-{number}",
                    parent_id=None)
            if number > 1000 and chance.random() < 0.5:
                changes[number - 1] = None
            snapshot = snapshot.apply_changes(changes, snapshots.NAMES, None)
            columns = sums.build_columns(snapshot, columns)
            fresh = sums.build_columns(snapshot, {})
            self.assertEqual(list(fresh), list(columns))
            for class_id, column in fresh.items():
                for name in ("rows", "amounts", "largest"):
                    self.assertEqual(getattr(column, name).tolist(),
                                     getattr(columns[class_id], name).tolist())
        unchanged = sums.build_columns(
            snapshot.apply_changes({}, snapshots.NAMES, None), columns)
        self.assertTrue(all(columns[id_] is column for id_, column in unchanged.items()))

    def test_sums_that_become_too_large(self) -> None:
        """One more host, and 64 bits are not enough for what was kept."""
        snapshot = snapshots.build(
            snapshots.provider(1, snapshots.inventory("VCPU", 2**63 - 2)))
        columns = sums.build_columns(snapshot, {})
        snapshot = snapshot.apply_changes(
            {2: snapshots.provider(2, snapshots.inventory("VCPU", 2**61))}, snapshots.NAMES, None)
        [room] = sums.sum_groups(
            sums.build_columns(snapshot, columns), [np.arange(snapshot.size)], snapshot.size)
        self.assertEqual(2**63 - 2 + 2**61, room[0].capacity)

    def test_after_changes(self) -> None:
        """Rows that became vacant count nowhere."""
        rows = [snapshots.provider(number, snapshots.inventory("VCPU", 10 ** number),
                                   aggregates=[101]) for number in (1, 2, 3)]
        snapshot = snapshots.build(*rows).apply_changes({3: None}, snapshots.NAMES, None)
        mask = groups.find_rows(snapshot, RoomFilter())
        for by in ("root", "aggregate"):
            found = groups.list_groups(snapshot, mask, by)
            rooms = sums.sum_groups(
                sums.build_columns(snapshot, {}), [group.rows for group in found], snapshot.size)
            self.assertEqual(110, sum(room[0].capacity for room in rooms))


class TestPromises(base.TestCase):
    @examples.draw(150)
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(1, 12))
    def test_promised(self, chance: random.Random, count: int) -> None:
        """A tree's providers have what is promised and not used, as far as it is free."""
        cloud = Cloud(chance, count)
        snapshot, layout = cloud.snapshot, cloud.snapshot.layout
        roots = [row for row in cloud.rows if row.parent_id is None and chance.random() < 0.7]
        place = {layout.row_of_uuid[row.uuid]: at for at, row in enumerate(roots)}
        whole = [chance.random() < 0.3 for _ in roots]
        amounts = [chance.choice((0, 1, 50, 2**62)) for _ in roots]
        tree_promises = TreePromises(
            np.array([place.get(int(root), -1) for root in layout.root], dtype=np.intp),
            np.array(whole, dtype=bool), {})
        columns = sums.build_columns(snapshot, {})
        for class_id, column in columns.items():
            promised = promises.compute_promised(
                column, np.array(amounts, dtype=np.int64),
                promises.sum_used([column], tree_promises), tree_promises)
            of_class = {
                row.uuid: inventory for row in cloud.rows for inventory in row.inventories
                if inventory.class_id == class_id}
            shares = {snapshot.entry(row).provider.uuid: share for row, share in zip(
                column.rows.tolist(), promised.tolist(), strict=True)}
            for uuid, share in shares.items():
                self.assertTrue(0 <= share <= _free(of_class[uuid]))
            for root in {cloud.root(row).id for row in cloud.rows}:
                tree = [row.uuid for row in cloud.rows
                        if cloud.root(row).id == root and row.uuid in of_class]
                free = sum(_free(of_class[uuid]) for uuid in tree)
                used = sum(of_class[uuid].used for uuid in tree)
                at = place.get(layout.row_of_uuid[cloud.by_id[root].uuid])
                expected = 0 if at is None else free if whole[at] else min(
                    max(amounts[at] - used, 0), free)
                self.assertEqual(expected, sum(shares[uuid] for uuid in tree))

    def test_only_whole_trees(self) -> None:
        column = sums.build_columns(snapshots.build(*(
            snapshots.provider(number, snapshots.inventory("CUSTOM_GPU", 4, 1))
            for number in (1, 2))), {})[snapshots.NAMES.class_ids["CUSTOM_GPU"]]
        tree_promises = TreePromises(np.arange(2), np.array([True, False]), {})
        self.assertEqual([3, 0], promises.compute_promised(
            column, None, promises.sum_used([column], tree_promises), tree_promises).tolist())


class TestClaims(base.TestCase):
    def test_parts_are_no_larger_than_the_whole(self) -> None:
        """What was read a moment later may be more than what the index has."""
        column = sums.build_columns(snapshots.build(
            snapshots.provider(1, snapshots.inventory("VCPU", 10**30, 7))), {})[0]
        claimed = column.with_claims(np.array([9]), np.array([3]))
        [rooms] = sums.sum_groups({0: claimed}, [np.array([0])], 32)
        self.assertEqual(
            Room(10**30, 0, 10**30, 7, 7, 3, 10**30 - 7, 2**31 - 1), rooms[0])
        self.assertEqual(0, column.get("held")[0])
