"""Which cell a name or uuid means."""

from __future__ import annotations

import uuid

from placement_core.cells import errors, mappings
from placement_core.cells.records import Cell
from tests import base


def cell(name: str, id_: int = 1) -> Cell:
    return Cell(id_, str(uuid.uuid4()), name, "", "sqlite:////tmp/cell", disabled=False)


class TestPick(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.one, self.other = cell("one"), cell("other", 2)
        self.cells = [self.one, self.other]

    def test_by_name_and_by_uuid(self) -> None:
        self.assertIs(self.other, mappings.pick(self.cells, "other"))
        self.assertIs(self.one, mappings.pick(self.cells, self.one.uuid))

    def test_a_uuid_wins(self) -> None:
        misleading = cell(self.one.uuid, 3)
        self.assertIs(self.one, mappings.pick([misleading, *self.cells], self.one.uuid))

    def test_none(self) -> None:
        self.assertRaises(errors.CellNotFound, mappings.pick, self.cells, "third")
        self.assertRaises(errors.CellNotFound, mappings.pick, [], "one")

    def test_several_of_one_name(self) -> None:
        twin = cell("one", 3)
        error = self.assertRaises(
            errors.AmbiguousCell, mappings.pick, [*self.cells, twin], "one")
        self.assertEqual([self.one.uuid, twin.uuid], error.uuids)
