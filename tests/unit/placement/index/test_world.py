import dataclasses
import random

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.index import columns
from placement_core.placement.index.rows import Names
from placement_core.placement.index.world import World
from tests import base, worlds

_SETTINGS = hypothesis.settings(deadline=None, max_examples=150, database=None)


def _row(chance, number, alive):
    others = [each for each in alive if each != number]
    return worlds.provider(
        number,
        *(worlds.inventory(name, chance.randint(0, 5), chance.randint(0, 2),
                           step_size=chance.choice((1, 1, 2)))
          for name in worlds.CLASSES if chance.random() < 0.5),
        parent=chance.choice(others) if others and chance.random() < 0.6 else None,
        traits=[name for name in worlds.TRAITS if chance.random() < 0.4],
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

    @_SETTINGS
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(1, 12))
    def test_changed_equals_built(self, chance, steps):
        """Any chain of changes leads to the world that a full load makes."""
        world, rows = worlds.build(), {}
        for _ in range(steps):
            before, was = world, worlds.describe(world)
            changes, rows = _change(chance, rows)
            world = world.changed(changes, worlds.NAMES, None)
            self.assertEqual(worlds.describe(worlds.build(*rows.values())),
                             worlds.describe(world))
            self.assertEqual(was, worlds.describe(before), "a version changed")

    def test_claim_copies_only_what_it_touches(self):
        world = worlds.build(*(
            worlds.provider(number, worlds.inventory("VCPU", 8), worlds.inventory("DISK_GB", 9),
                            traits=["CUSTOM_A"], aggregates=[101])
            for number in range(1, 50)))
        after = world.changed(
            {7: worlds.provider(7, worlds.inventory("VCPU", 8, 2), worlds.inventory("DISK_GB", 9),
                                traits=["CUSTOM_A"], aggregates=[101])}, worlds.NAMES, None)
        self.assertIs(world.layout, after.layout)
        self.assertIs(world.traits, after.traits)
        self.assertIs(world.aggregates, after.aggregates)
        vcpu, disk = (worlds.NAMES.class_ids[name] for name in ("VCPU", "DISK_GB"))
        self.assertIs(world.columns[vcpu].rows, after.columns[vcpu].rows)
        self.assertIs(world.columns[vcpu].max_unit, after.columns[vcpu].max_unit)
        self.assertIsNot(world.columns[vcpu].free, after.columns[vcpu].free)
        self.assertIs(world.columns[disk].free, after.columns[disk].free)
        row = world.layout.row_of_id[7]
        changed = [at for at, entry in enumerate(after.entries) if entry != world.entries[at]]
        self.assertEqual([row], changed)

    def test_rows_are_used_again(self):
        world = worlds.build(*(worlds.provider(number) for number in range(1, 30)))
        size = world.size
        for number in range(100, 400):
            world = world.changed(
                {number: worlds.provider(number), number - 1: None}, worlds.NAMES, None)
        self.assertEqual(size, world.size)
        self.assertEqual(30, len(world.layout.row_of_id))

    def test_renamed_class_is_shown_anew(self):
        world = worlds.build(
            worlds.provider(1, worlds.inventory("CUSTOM_GPU", 1)),
            worlds.provider(2, worlds.inventory("VCPU", 1)))
        for entry in world.entries[:2]:
            entry.summary = b"old"
        classes = dict(worlds.NAMES.class_names)
        classes[worlds.NAMES.class_ids["CUSTOM_GPU"]] = "CUSTOM_CARD"
        after = world.changed({}, Names(classes, worlds.NAMES.trait_names), None)
        self.assertEqual([None, b"old"], [entry.summary for entry in after.entries[:2]])
        self.assertEqual(b"old", world.entries[0].summary)
        self.assertIn("CUSTOM_CARD", after.names.class_ids)

    def test_root_forgets_what_was_made_of_its_tree(self):
        world = worlds.build(
            worlds.provider(1), worlds.provider(2), worlds.provider(3, parent=1),
            worlds.provider(4, parent=3))
        one, two = (world.layout.row_of_id[id_] for id_ in (1, 2))
        for change, forgets in (
            ({4: worlds.provider(4, worlds.inventory("VCPU", 1), parent=3)}, {one}),
            ({4: None}, {one}),
            ({3: worlds.provider(3, parent=2)}, {one, two}),
            ({5: worlds.provider(5, parent=2)}, {two}),
            ({5: worlds.provider(5)}, set()),
        ):
            with self.subTest(change):
                for row in (one, two):
                    world.entries[row].summary = b"made"
                after = world.changed(change, worlds.NAMES, None)
                self.assertEqual(
                    forgets, {row for row in (one, two) if after.entries[row].summary is None})
                self.assertEqual(b"made", world.entries[one].summary)

    def test_trees_lie_together(self):
        world = worlds.build(
            worlds.provider(1), worlds.provider(2), worlds.provider(3, parent=1),
            worlds.provider(4, parent=2), worlds.provider(5, parent=3))
        self.assertEqual([1, 3, 5, 2, 4],
                         [entry.provider.id for entry in world.entries if entry])

    def test_loop_in_a_damaged_database(self):
        world = worlds.build(
            worlds.provider(1, parent=2), worlds.provider(2, parent=1), worlds.provider(3))
        self.assertEqual(3, len(world.layout.row_of_id))
        for row in world.layout.row_of_id.values():
            world.layout.ancestors(row)

    def test_parent_that_is_missing(self):
        world = worlds.build(worlds.provider(1, parent=9))
        self.assertEqual(worlds.uuid_of(1), world.entries[0].provider.root_uuid)
        self.assertIsInstance(world, World)


class TestColumns(base.TestCase):

    def test_fitting(self):
        column = columns.NO_INVENTORY.edited({
            4: worlds.inventory("VCPU", 10, 4, min_unit=2, max_unit=5),
            1: worlds.inventory("VCPU", 10, 4, step_size=3),
            2: worlds.inventory("VCPU", 10**30, 7)})
        for amount, rows in ((1, [2]), (2, [2, 4]), (3, [1, 2, 4]), (5, [2, 4]), (6, [1, 2]),
                             (7, [2]), (2**31 - 1, [2]), (2**31, []), (2**80, [])):
            self.assertEqual(rows, np.flatnonzero(column.fitting(amount, 6)).tolist(), amount)

    def test_set_keeps_a_mask_only_when_it_is_worth_it(self):
        many, few = columns.RowSet.of([1, 3]), columns.RowSet.of([7])
        self.assertIs(many.mask(8), many.mask(8))
        self.assertEqual(8, len(many.mask(8)))
        self.assertEqual(9, len(many.mask(9)))
        self.assertIsNot(few.mask(1000), few.mask(1000))
