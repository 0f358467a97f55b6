import dataclasses
import random

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.index import columns
from placement_core.placement.index.records import NameIndex
from placement_core.placement.index.snapshot import CapacitySnapshot
from tests import base, examples, snapshots


def _row(chance, number, alive):
    others = [each for each in alive if each != number]
    return snapshots.provider(
        number,
        *(snapshots.inventory(name, chance.randint(0, 5), chance.randint(0, 2),
                              step_size=chance.choice((1, 1, 2)))
          for name in snapshots.CLASSES if chance.random() < 0.5),
        parent=chance.choice(others) if others and chance.random() < 0.6 else None,
        traits=[name for name in snapshots.TRAITS if chance.random() < 0.4],
        aggregates=[each for each in (101, 102, 103) if chance.random() < 0.4],
        generation=chance.randint(0, 9), name=f"name-{chance.randint(0, 10**6)}")


def _change(chance, rows):
    """Return a change that a database could make of ``rows``, {id: row or None}."""
    changes = {}
    present = dict(rows)
    for _ in range(chance.choice((1, 1, 2, 4))):
        number = chance.randint(1, 12)
        is_parent = any(row.parent_id == number for row in present.values())
        if number in present and not is_parent and chance.random() < 0.3:
            del present[number]
            changes[number] = None
            continue
        below = {number}
        while more := {row.id for row in present.values() if row.parent_id in below} - below:
            below |= more
        row = _row(chance, number, set(present) - below)
        if number in present and chance.random() < 0.5:
            row = dataclasses.replace(row, parent_id=present[number].parent_id)
        present[number] = changes[number] = row
    return changes, present


class TestWorld(base.TestCase):

    @examples.draw(150)
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(1, 12))
    def test_changed_equals_built(self, chance, steps):
        """Any chain of changes leads to the snapshot that a full load makes."""
        snapshot, rows = snapshots.build(), {}
        for _ in range(steps):
            before, was = snapshot, snapshots.describe(snapshot)
            changes, rows = _change(chance, rows)
            snapshot = snapshot.apply_changes(changes, snapshots.NAMES, None)
            self.assertEqual(snapshots.describe(snapshots.build(*rows.values())),
                             snapshots.describe(snapshot))
            self.assertEqual(was, snapshots.describe(before), "a version changed")

    def test_claim_copies_only_what_it_touches(self):
        snapshot = snapshots.build(*(
            snapshots.provider(number, snapshots.inventory("VCPU", 8),
                               snapshots.inventory("DISK_GB", 9),
                               traits=["CUSTOM_A"], aggregates=[101])
            for number in range(1, 50)))
        after = snapshot.apply_changes(
            {7: snapshots.provider(7, snapshots.inventory("VCPU", 8, 2),
                                   snapshots.inventory("DISK_GB", 9),
                                   traits=["CUSTOM_A"], aggregates=[101])},
            snapshots.NAMES, None)
        self.assertIs(snapshot.layout, after.layout)
        self.assertIs(snapshot.traits, after.traits)
        self.assertIs(snapshot.aggregates, after.aggregates)
        vcpu, disk = (snapshots.NAMES.class_ids[name] for name in ("VCPU", "DISK_GB"))
        self.assertIs(snapshot.columns[vcpu].rows, after.columns[vcpu].rows)
        self.assertIs(snapshot.columns[vcpu].max_unit, after.columns[vcpu].max_unit)
        self.assertIsNot(snapshot.columns[vcpu].free, after.columns[vcpu].free)
        self.assertIs(snapshot.columns[disk].free, after.columns[disk].free)
        row = snapshot.layout.row_of_id[7]
        changed = [at for at, entry in enumerate(after.entries) if entry != snapshot.entries[at]]
        self.assertEqual([row], changed)

    def test_rows_are_used_again(self):
        snapshot = snapshots.build(*(snapshots.provider(number) for number in range(1, 30)))
        size = snapshot.size
        for number in range(100, 400):
            snapshot = snapshot.apply_changes(
                {number: snapshots.provider(number), number - 1: None}, snapshots.NAMES, None)
        self.assertEqual(size, snapshot.size)
        self.assertEqual(30, len(snapshot.layout.row_of_id))

    def test_renamed_class_is_shown_anew(self):
        snapshot = snapshots.build(
            snapshots.provider(1, snapshots.inventory("CUSTOM_GPU", 1)),
            snapshots.provider(2, snapshots.inventory("VCPU", 1)))
        for entry in list(snapshot.entries)[:2]:
            entry.summary = b"old"
        classes = dict(snapshots.NAMES.class_names)
        classes[snapshots.NAMES.class_ids["CUSTOM_GPU"]] = "CUSTOM_CARD"
        after = snapshot.apply_changes({}, NameIndex(classes, snapshots.NAMES.trait_names), None)
        self.assertEqual([None, b"old"], [entry.summary for entry in list(after.entries)[:2]])
        self.assertEqual(b"old", snapshot.entries[0].summary)
        self.assertIn("CUSTOM_CARD", after.names.class_ids)

    def test_root_forgets_what_was_made_of_its_tree(self):
        snapshot = snapshots.build(
            snapshots.provider(1), snapshots.provider(2), snapshots.provider(3, parent=1),
            snapshots.provider(4, parent=3))
        one, two = (snapshot.layout.row_of_id[id_] for id_ in (1, 2))
        for change, forgets in (
            ({4: snapshots.provider(4, snapshots.inventory("VCPU", 1), parent=3)}, {one}),
            ({4: None}, {one}),
            ({3: snapshots.provider(3, parent=2)}, {one, two}),
            ({5: snapshots.provider(5, parent=2)}, {two}),
            ({5: snapshots.provider(5)}, set()),
        ):
            with self.subTest(change):
                for row in (one, two):
                    snapshot.entries[row].summary = b"made"
                after = snapshot.apply_changes(change, snapshots.NAMES, None)
                self.assertEqual(
                    forgets, {row for row in (one, two) if after.entries[row].summary is None})
                self.assertEqual(b"made", snapshot.entries[one].summary)

    def test_trees_lie_together(self):
        snapshot = snapshots.build(
            snapshots.provider(1), snapshots.provider(2), snapshots.provider(3, parent=1),
            snapshots.provider(4, parent=2), snapshots.provider(5, parent=3))
        self.assertEqual([1, 3, 5, 2, 4],
                         [entry.provider.id for entry in snapshot.entries if entry])

    def test_loop_in_a_damaged_database(self):
        snapshot = snapshots.build(
            snapshots.provider(1, parent=2), snapshots.provider(2, parent=1),
            snapshots.provider(3))
        self.assertEqual(3, len(snapshot.layout.row_of_id))
        for row in snapshot.layout.row_of_id.values():
            snapshot.layout.ancestors(row)

    def test_parent_that_is_missing(self):
        snapshot = snapshots.build(snapshots.provider(1, parent=9))
        self.assertEqual(snapshots.uuid_of(1), snapshot.entries[0].provider.root_uuid)
        self.assertIsInstance(snapshot, CapacitySnapshot)


class TestColumns(base.TestCase):

    def test_fitting(self):
        column = columns.NO_INVENTORY.apply_edits({
            4: snapshots.inventory("VCPU", 10, 4, min_unit=2, max_unit=5),
            1: snapshots.inventory("VCPU", 10, 4, step_size=3),
            2: snapshots.inventory("VCPU", 10**30, 7)})
        for amount, rows in ((1, [2]), (2, [2, 4]), (3, [1, 2, 4]), (5, [2, 4]), (6, [1, 2]),
                             (7, [2]), (2**31 - 1, [2]), (2**31, []), (2**80, [])):
            self.assertEqual(rows, np.flatnonzero(column.find_fitting(amount, 6)).tolist(), amount)

    def test_set_keeps_a_mask_only_when_it_is_worth_it(self):
        many, few = columns.RowSet.from_rows([1, 3]), columns.RowSet.from_rows([7])
        self.assertIs(many.mask(8), many.mask(8))
        self.assertEqual(8, len(many.mask(8)))
        self.assertEqual(9, len(many.mask(9)))
        self.assertIsNot(few.mask(1000), few.mask(1000))
