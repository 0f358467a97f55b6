"""What rows of nova's tables of cells mean."""

from __future__ import annotations

from placement_core.takeover import nova_cells
from placement_core.takeover.records import Outcome, Surroundings
from tests import base

_SURROUNDINGS = Surroundings(None, None, ())


class TestSettleCells(base.TestCase):
    def settle(self, surroundings=_SURROUNDINGS, **values):
        row = {"id": 1, "uuid": "c1", "name": "cell1", "transport_url": "none:///",
               "database_connection": "mysql://u@db/cell1", "disabled": False, **values}
        contents = nova_cells.settle_cells([row], surroundings)
        return contents.records[0].fields, [
            (item.id, item.outcome, item.reason) for item in contents.left]

    def test_a_cell(self) -> None:
        self.assertEqual(({
            "name": "cell1", "transport_url": "none:///",
            "database_connection": "mysql://u@db/cell1", "disabled": False}, []), self.settle())

    def test_disabled(self) -> None:
        for value, expected in ((1, True), (True, True), (0, False), (None, False)):
            self.assertIs(expected, self.settle(disabled=value)[0]["disabled"])

    def test_nothing_at_all(self) -> None:
        fields, [(id_, outcome, _)] = self.settle(
            name=None, transport_url=None, database_connection=None)
        self.assertEqual(("", "", ""), (
            fields["name"], fields["transport_url"], fields["database_connection"]))
        self.assertEqual(("c1", Outcome.WARNING), (id_, outcome))

    def test_a_template(self) -> None:
        template = "{scheme}://{hostname}/cell1"
        fields, [(_, outcome, reason)] = self.settle(database_connection=template)
        self.assertEqual((template, Outcome.WARNING),
                         (fields["database_connection"], outcome))
        self.assertIn("[cells] template_connection", reason)
        filled = Surroundings(None, None, (), fills_templates=True)
        self.assertEqual([], self.settle(filled, database_connection=template)[1])
        self.assertEqual([], self.settle(transport_url=template)[1])


class TestInstanceNotes(base.TestCase):
    def settle(self, *rows):
        notes = nova_cells.InstanceNotes({1: "c1"})
        settled = [(record.fields["cell"], record.fields["queued_for_delete"], obstacle)
                   for record, obstacle in notes.settle([
                       {"id": 1, "instance_uuid": "i", "cell_id": 1, "project_id": "p",
                        "user_id": "u", "queued_for_delete": 0, **row} for row in rows])]
        return settled, [(item.outcome, item.count) for item in notes.list_items()]

    def test_cells(self) -> None:
        self.assertEqual(
            ([("c1", False, ""), (None, False, ""), (None, True, "its cell 2 is not there")], []),
            self.settle({}, {"cell_id": None}, {"cell_id": 2, "queued_for_delete": 1}))

    def test_what_is_not_known_is_counted(self) -> None:
        settled, notes = self.settle(
            {"user_id": None}, {"user_id": None, "queued_for_delete": None})
        self.assertEqual([("c1", False, ""), ("c1", None, "")], settled)
        self.assertEqual([(Outcome.WARNING, 2), (Outcome.WARNING, 1)], notes)

    def test_the_marker(self) -> None:
        self.assertEqual(
            ([], [(Outcome.SKIPPED, 1)]),
            self.settle({"project_id": "00000000-0000-0000-0000-000000000000"}))


class TestSettleGroups(base.TestCase):
    def test_members_are_sorted(self) -> None:
        row = {"id": 7, "uuid": "g", "name": None, "project_id": "p", "user_id": None}
        [group] = nova_cells.settle_groups([row], {7: {"b", "a"}, 8: {"c"}})
        self.assertEqual(
            ("g", {"name": "", "project_id": "p", "user_id": None, "members": ["a", "b"]}),
            (group.id, group.fields))
        [empty] = nova_cells.settle_groups([row], {})
        self.assertEqual([], empty.fields["members"])
