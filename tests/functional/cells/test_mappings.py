"""Cell mappings, in our database and in nova's."""

import contextlib
import dataclasses
import functools
import itertools

from placement_core import db
from placement_core.cells import errors, instances, mappings, tables
from placement_core.cells.mappings import CELL0
from placement_core.db import failures
from tests import databases, races
from tests.functional.cells import cases

_NOWHERE = "sqlite:////nonexistent/cell.sqlite"


@databases.on_each_database
class TestMappings(cases.CellsTestCase):
    def names(self):
        return [each.name for each in self.cells.cells(self.ctx)]

    def test_life(self):
        made = self.cell("cell1", "mysql+pymysql://u:pw@h/d?charset=utf8",
                         transport_url="rabbit://u:pw@h/")
        self.assertEqual([made], self.cells.cells(self.ctx))
        self.assertEqual(made, mappings.get(self.ctx, self.cells, "cell1"))
        self.assertEqual(made, mappings.get(self.ctx, self.cells, made.uuid))
        for changes in ({"disabled": True}, {"name": "north"}, {"disabled": False},
                        {"database_connection": _NOWHERE}, {"transport_url": ""}, {}):
            changed = mappings.update(self.ctx, self.cells, made.uuid, changes)
            for field, value in changes.items():
                self.assertEqual(value, getattr(changed, field))
            self.assertEqual([changed], self.cells.cells(self.ctx))
        mappings.delete(self.ctx, self.cells, "north")
        self.assertEqual([], self.cells.cells(self.ctx))
        self.assertRaises(errors.CellNotFound, mappings.get, self.ctx, self.cells, made.uuid)
        self.assertRaises(errors.CellNotFound, mappings.delete, self.ctx, self.cells, "north")
        self.assertRaises(errors.CellNotFound, mappings.update, self.ctx, self.cells, "no", {})

    def test_the_row_is_what_nova_would_write(self):
        made = self.cell("cell1", "postgresql://u:p%40ss@h/d", transport_url="rabbit://u:pw@h/",
                         disabled=True)
        (row,) = self.rows("cell_mappings")
        self.assertIsNotNone(row.pop("created_at"))
        self.assertEqual({
            "id": made.id, "uuid": made.uuid, "name": "cell1", "disabled": True,
            "database_connection": "postgresql://u:p%40ss@h/d",
            "transport_url": "rabbit://u:pw@h/", "updated_at": None},
            row | {"disabled": bool(row["disabled"])})

    def test_one_of_each(self):
        made = self.cell("cell1", "mysql://u:pw@h/one")
        other = self.cell("cell2", "mysql://u:pw@h/two")
        for field, cell in (
            ("name", {"name": "cell1"}),
            ("uuid", {"uuid": made.uuid}),
            ("uuid", {"uuid": made.uuid.upper().replace("-", "")}),
            # However it is spelled: its instances would count twice.
            ("database_connection", {"url": "mysql://u:pw@h/one"}),
            ("database_connection", {"url": "mysql+pymysql://u:other@h/one?charset=utf8"}),
            ("database_connection", {"url": "mysql://root@h:3306/one"}),
        ):
            error = self.assertRaises(
                errors.DuplicateCell, self.cell, **({"name": "cell3"} | cell))
            self.assertEqual(field, error.field)
        for changes in ({"name": "cell1"}, {"database_connection": "mysql://u:pw@h/one"}):
            self.assertRaises(errors.DuplicateCell, mappings.update, self.ctx, self.cells,
                              "cell2", changes)
        self.assertEqual([made, other], self.cells.cells(self.ctx))

    def test_what_makes_no_sense(self):
        for field, cell in (
            ("name", {"name": ""}), ("name", {"name": " "}), ("name", {"name": "x" * 256}),
            ("name", {"name": "a\0b"}), ("name", {"name": "\ud800"}), ("name", {"name": CELL0}),
            ("uuid", {"uuid": "no uuid"}), ("uuid", {"uuid": ""}),
            ("database_connection", {"url": "nonsense"}),
            ("database_connection", {"url": "oracle://h/d"}),
            ("database_connection", {"url": "sqlite://"}),
            ("database_connection", {"url": "mysql://h/" + "x" * 65536}),
            # What a list shows of a URL is no URL.
            ("database_connection", {"url": "mysql://u:***@h/d"}),
            ("transport_url", {"transport_url": "rabbit://\0"}),
            ("disabled", {"uuid": CELL0, "disabled": True}),
        ):
            error = self.assertRaises(
                errors.InvalidCell, self.cell, **({"name": "cell1"} | cell))
            self.assertEqual(field, error.field)
        self.assertEqual([], self.names())
        self.cell("cell0", uuid=CELL0)
        self.assertRaises(errors.InvalidCell, mappings.update, self.ctx, self.cells, "cell0",
                          {"disabled": True})

    def test_names_that_nova_gave_twice(self):
        for number in (1, 2):
            with db.write(self.cells.api(self.ctx)) as session:
                session.execute(tables.cell_mappings.insert(), {
                    "uuid": f"{number:032}", "name": "twin", "transport_url": "",
                    "database_connection": ""})
        error = self.assertRaises(
            errors.AmbiguousCell, mappings.get, self.ctx, self.cells, "twin")
        self.assertEqual([f"{1:032}", f"{2:032}"], error.uuids)
        self.assertEqual(
            "twin", mappings.get(self.ctx, self.cells, f"{2:032}").name)
        mappings.delete(self.ctx, self.cells, f"{2:032}")
        self.assertEqual(f"{1:032}", mappings.get(self.ctx, self.cells, "twin").uuid)

    def test_nobody_removes_a_cell_that_is_used(self):
        self.cell()
        made, _ = instances.register(
            self.ctx, self.cells, uuid=f"{1:032}", project_id="p", user_id="u", cell="cell1")
        instances.update(self.ctx, self.cells, made.uuid, queued_for_delete=True)
        self.assertRaises(errors.CellInUse, mappings.delete, self.ctx, self.cells, "cell1")
        self.assertEqual(["cell1"], self.names())

    @contextlib.contextmanager
    def failing_commit(self, database, error, *, happened, then=lambda: None):
        """Let the next COMMIT to a database fail, whether or not it happened."""
        dialect = database.writer.dialect

        def fail(connection):
            del dialect.do_commit
            connection.commit() if happened else connection.rollback()
            then()
            raise error

        dialect.do_commit = fail
        yield
        self.assertNotIn("do_commit", vars(dialect), "there was a commit")

    def failing_commits(self):
        """Return what lets commits fail when the other database, if there is one, has all."""
        api = self.cells.api(self.ctx).database
        return [
            functools.partial(self.failing_commit, self.database, db.TransactionConflict(),
                              happened=False),
            functools.partial(self.failing_commit, api, failures.ConnectionLost(),
                              happened=True)]

    def test_a_repeated_removal(self):
        for fail in self.failing_commits():
            self.cell()
            other = self.cell("other")
            with fail():
                mappings.delete(self.ctx, self.cells, "cell1")
            self.assertEqual([other], self.cells.cells(self.ctx))
            self.assertRaises(
                errors.CellNotFound, mappings.delete, self.ctx, self.cells, "cell1")
            mappings.delete(self.ctx, self.cells, "other")

    def test_a_repeated_removal_while_another_gets_the_name(self):
        """What has the name then is another cell."""
        if not self.nova:
            self.skipTest("one transaction writes all there is")
        self.cell()
        create = functools.partial(
            mappings.create, self.context(), self.cells, name="cell1",
            database_connection=_NOWHERE)
        with self.failing_commit(
                self.database, db.TransactionConflict(), happened=False, then=create):
            mappings.delete(self.ctx, self.cells, "cell1")
        self.assertEqual(["cell1"], self.names())

    def test_a_repeated_change_of_the_name(self):
        made = self.cell()
        names = itertools.cycle(["south", "north"])
        name = "cell1"
        for fail in self.failing_commits():
            new_name = next(names)
            with fail():
                changed = mappings.update(self.ctx, self.cells, name, {"name": new_name})
            self.assertEqual(dataclasses.replace(made, name=new_name), changed)
            self.assertEqual([changed], self.cells.cells(self.ctx))
            name = new_name

    def test_eight_add_the_same_cell(self):
        self.database.retries = 30
        outcomes = races.run(*(
            functools.partial(mappings.create, self.context(), self.cells,
                              name="cell1", database_connection=_NOWHERE)
            for _ in range(8)))
        lost = [each for each in outcomes if isinstance(each, Exception)]
        self.assertEqual([errors.DuplicateCell] * 7, [type(each) for each in lost], lost)
        self.assertEqual(["cell1"], self.names())


@databases.on_each_database
class TestMappingsOfNova(TestMappings):
    nova = True

    def test_what_nova_leaves_empty(self):
        self.insert(self.api_url, "cell_mappings", uuid=CELL0)
        (cell,) = self.cells.cells(self.ctx)
        self.assertEqual((CELL0, "", "", "", False), (
            cell.uuid, cell.name, cell.database_connection, cell.transport_url, cell.disabled))
        self.assertEqual(CELL0, cell.title)

    def test_nobody_removes_a_cell_that_has_hosts(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite does not hold nova's references")
        made = self.cell()
        self.insert(self.api_url, "host_mappings", cell_id=made.id, host="compute1")
        self.assertRaises(errors.CellInUse, mappings.delete, self.ctx, self.cells, "cell1")
