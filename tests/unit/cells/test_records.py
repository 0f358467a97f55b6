"""What cells and counts of instances are made of."""

from __future__ import annotations

from placement_core.cells.counts import InstanceTotals
from placement_core.cells.instances import is_deleted
from placement_core.cells.records import Cell
from tests import base


class TestCell(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cell = Cell(1, "a-uuid", "", "rabbit://u:secret@h/", "mysql://u:secret@h/db", False)

    def test_passwords_are_masked(self) -> None:
        for text in (self.cell.masked_connection, self.cell.masked_transport, repr(self.cell)):
            self.assertNotIn("secret", text)

    def test_one_without_a_name_goes_by_its_uuid(self) -> None:
        self.assertEqual("a-uuid", self.cell.title)


class TestTotals(base.TestCase):
    def test_addition(self) -> None:
        self.assertEqual(
            InstanceTotals(3, 5, 7), InstanceTotals(1, 2, 3) + InstanceTotals(2, 3, 4))


class TestDeleted(base.TestCase):
    def test_states(self) -> None:
        for deleted, vm_state, expected in (
            (0, "active", False), (None, None, False), (7, "active", True),
            (0, "soft-delete", True), (0, "error", False),
        ):
            self.assertEqual(expected, is_deleted(deleted, vm_state), (deleted, vm_state))
