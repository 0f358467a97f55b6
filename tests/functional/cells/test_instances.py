"""Instance mappings, in our database and in nova's; healed from ours and nova's cells."""

import datetime
import functools
import uuid

import fixtures
import sqlalchemy as sa

from placement_core.cells import errors, instances, mappings, schema, tables
from tests import databases, nova_databases, races
from tests.functional.cells import cases, rivals
from tests.functional.placement.races import processes

A, B, C = (str(uuid.UUID(int=number)) for number in (1, 2, 3))


class InstancesTestCase(cases.CellsTestCase):
    def register(self, uuid_=A, project_id="demo", user_id="alice", cell=None, ctx=None):
        return instances.register(
            ctx or self.ctx, self.cells, uuid=uuid_, project_id=project_id, user_id=user_id,
            cell=cell)

    def get(self, uuid_=A):
        return instances.get(self.ctx, self.cells, uuid_)

    def update(self, uuid_=A, **changes):
        return instances.update(self.ctx, self.cells, uuid_, **changes)

    def listed(self, **wanted):
        """Return the uuids of a list, as one digit each."""
        return "".join(
            each.uuid[-1] for each in instances.list_(self.ctx, self.cells, **wanted))


@databases.on_each_database
class TestInstances(InstancesTestCase):
    def test_life(self):
        cell = self.cell()
        made, new = self.register()
        self.assertTrue(new)
        self.assertEqual((A, "demo", "alice", None, False), (
            made.uuid, made.project_id, made.user_id, made.cell_uuid, made.queued_for_delete))
        self.assertIsNotNone(made.created_at.tzinfo)
        self.assertEqual(made, self.get())
        moved = self.update(cell="cell1")
        self.assertEqual(cell.uuid, moved.cell_uuid)
        self.assertIsNotNone(moved.updated_at)
        self.assertTrue(self.update(queued_for_delete=True).queued_for_delete)
        self.assertEqual(cell.uuid, self.get().cell_uuid)
        self.assertFalse(self.update(queued_for_delete=False, cell=cell.uuid).queued_for_delete)
        self.assertEqual(self.get(), self.update())

    def test_purge(self):
        """What was marked long ago goes; what lives, or was brought back, stays."""
        self.useFixture(fixtures.MonkeyPatch("placement_core.cells.instances._BATCH", 2))
        now = datetime.datetime.now(datetime.UTC)
        table = tables.instance_mappings
        if self.nova:
            error = self.assertRaises(
                errors.KeptByNova, instances.purge, self.ctx, self.cells, before=now)
            self.assertIn("nova-manage db archive_deleted_rows", str(error))
            return
        old = [str(uuid.UUID(int=number)) for number in range(10, 15)]
        for each in (A, B, C, *old):
            self.register(each)
        for each in (B, *old):
            self.update(each, queued_for_delete=True)
        with self.ctx.database.writer.begin() as connection:
            connection.execute(sa.update(table).where(table.c.instance_uuid != B).values(
                updated_at=now.replace(tzinfo=None) - datetime.timedelta(days=10)))
        purge = functools.partial(instances.purge, self.ctx, self.cells)
        self.assertEqual(0, purge(before=now - datetime.timedelta(days=11)))
        self.assertEqual(5, purge(before=now - datetime.timedelta(days=9)))
        self.assertEqual("123", self.listed())
        self.assertEqual(0, purge(before=now - datetime.timedelta(days=9)))
        self.assertEqual(1, purge(before=now + datetime.timedelta(days=1)))
        self.assertEqual("13", self.listed())

    def test_the_row_is_what_nova_would_write(self):
        cell = self.cell()
        made, _ = self.register(cell="cell1")
        (row,) = self.rows("instance_mappings")
        self.assertIsNotNone(row.pop("created_at"))
        self.assertEqual({
            "id": made.id, "instance_uuid": A, "cell_id": cell.id, "project_id": "demo",
            "user_id": "alice", "queued_for_delete": False, "updated_at": None},
            row | {"queued_for_delete": bool(row["queued_for_delete"])})

    def test_again(self):
        cell = self.cell()
        self.cell("cell2")
        first, _ = self.register(cell="cell1")
        for spelled, named in (
            (A, "cell1"), (A.upper(), cell.uuid), (A.replace("-", ""), "cell1"),
        ):
            self.assertEqual((first, False), self.register(spelled, cell=named))
        for other in ({"project_id": "other"}, {"user_id": "bob"}, {"cell": "cell2"},
                      {"cell": None}):
            self.assertRaises(
                errors.DuplicateInstance, self.register, **({"cell": "cell1"} | other))
        self.update(queued_for_delete=True)
        self.assertRaises(errors.DuplicateInstance, self.register, cell="cell1")
        self.assertEqual(1, len(self.rows("instance_mappings")))

    def test_refused(self):
        for values in (
            {"uuid_": "no uuid"}, {"uuid_": ""}, {"project_id": ""}, {"project_id": " "},
            {"project_id": "x" * 256}, {"user_id": ""}, {"user_id": "a\0"},
            {"user_id": "\ud800"},
        ):
            self.assertRaises(errors.InvalidInstance, self.register, **values)
        self.assertRaises(errors.UnknownCell, self.register, cell="nowhere")
        self.assertEqual([], self.rows("instance_mappings"))
        for missing in (A, "no uuid", "", "\0", "\ud800"):
            self.assertRaises(errors.InstanceNotFound, self.get, missing)
            self.assertRaises(errors.InstanceNotFound, self.update, missing)
        self.register()
        self.assertRaises(errors.UnknownCell, self.update, cell="nowhere")
        self.assertIsNone(self.get().cell_uuid)

    def test_lists(self):
        self.cell()
        self.cell("cell2")
        self.register(B, cell="cell1")
        self.register(A, user_id="bob", cell="cell2")
        self.register(C, project_id="other")
        self.update(A, queued_for_delete=True)
        for wanted, found in (
            ({}, "213"), ({"project_id": "demo"}, "21"), ({"user_id": "alice"}, "23"),
            ({"cell": "cell2"}, "1"), ({"queued_for_delete": True}, "1"),
            ({"queued_for_delete": False}, "23"), ({"project_id": "nobody"}, ""),
            ({"project_id": "demo", "user_id": "alice", "cell": "cell1"}, "2"),
            ({"project_id": "\ud800"}, ""), ({"limit": 2}, "21"), ({"marker": B}, "13"),
            ({"marker": B, "limit": 1}, "1"), ({"marker": C}, ""),
            # A marker need not pass the filters.
            ({"marker": A, "user_id": "alice"}, "3"),
        ):
            self.assertEqual(found, self.listed(**wanted), wanted)
        self.assertRaises(errors.UnknownCell, self.listed, cell="nowhere")
        for marker in (str(uuid.uuid4()), "no uuid", "\0"):
            self.assertRaises(errors.UnknownInstanceMarker, self.listed, marker=marker)


@databases.on_each_database
class TestInstancesOfNova(TestInstances):
    nova = True


@databases.on_each_database
class TestHealing(InstancesTestCase):
    """GET fills in what a mapping lacks, from its cell."""

    timeout = 2

    def setUp(self):
        super().setUp()
        self.map_cell()

    def map_cell(self):
        """Map cell1; its database has the columns that we use."""
        self.url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, self.url)
        self.there = self.cell("cell1", self.url)
        schema.sync(self.ctx, self.cells, self.there)

    def mapping(self, uuid_=A, **values):
        """Insert a mapping as an older nova did: without user and state."""
        self.insert(self.api_url or self.database.settings.connection, "instance_mappings",
                    instance_uuid=uuid_, project_id="demo", cell_id=self.there.id, **values)

    def in_cell(self, uuid_=A, **values):
        self.insert(self.url, "instances", **({
            "uuid": uuid_, "project_id": "demo", "user_id": "alice", "deleted": 0,
            "vm_state": "active"} | values))

    def healed(self, uuid_=A):
        """Return what GET shows, which is what is kept from then on."""
        found = self.get(uuid_)
        (kept,) = [row for row in self.rows("instance_mappings")
                   if row["instance_uuid"] == uuid_]
        shown = found.user_id, found.queued_for_delete
        self.assertEqual((kept["user_id"], kept["queued_for_delete"]), shown)
        return shown

    def test_what_is_missing(self):
        for number, (lacks, row, healed) in enumerate((
            ({}, {}, ("alice", False)),
            ({}, {"deleted": 7}, ("alice", True)),
            ({}, {"vm_state": "soft-delete"}, ("alice", True)),
            ({}, {"vm_state": None}, ("alice", False)),
            ({}, {"vm_state": "error"}, ("alice", False)),
            ({"user_id": "bob"}, {}, ("bob", False)),
            ({"queued_for_delete": True}, {}, ("alice", True)),
            ({"queued_for_delete": False}, {"deleted": 1}, ("alice", False)),
            ({"user_id": "bob", "queued_for_delete": False}, {"deleted": 1}, ("bob", False)),
            ({}, {"user_id": None}, (None, False)),
        )):
            each = str(uuid.UUID(int=number))
            self.mapping(each, **lacks)
            self.in_cell(each, **row)
            for _ in range(2):
                self.assertEqual(healed, self.healed(each), (lacks, row))

    def test_a_cell_that_does_not_know_it(self):
        self.mapping()
        self.assertEqual((None, None), self.healed())

    def test_no_cell(self):
        self.insert(self.api_url or self.database.settings.connection, "instance_mappings",
                    instance_uuid=A, project_id="demo")
        self.assertEqual((None, None), self.healed())

    def test_a_cell_that_is_down(self):
        mappings.update(self.ctx, self.cells, "cell1", {
            "database_connection": "postgresql://nobody:pw@127.0.0.1:1/nowhere"})
        self.mapping()
        self.assertEqual((None, None), self.healed())
        mappings.update(self.ctx, self.cells, "cell1", {"database_connection": self.url})
        self.in_cell()
        self.assertEqual(("alice", False), self.healed())

    def test_what_somebody_else_says_meanwhile_stays(self):
        """The cell's answer is no news where the mapping got another one in between."""
        self.mapping()
        self.in_cell()
        cells, asked = self.cells, self.cells.scatter_gather

        def meanwhile(*arguments):
            answers = asked(*arguments)
            self.update(queued_for_delete=True)
            return answers

        cells.scatter_gather = meanwhile
        self.assertEqual(("alice", True), self.healed())

    def test_an_instance_that_moved_meanwhile(self):
        self.mapping()
        self.in_cell()
        self.cell("cell2")
        asked = self.cells.scatter_gather

        def meanwhile(*arguments):
            answers = asked(*arguments)
            self.update(cell="cell2")
            return answers

        self.cells.scatter_gather = meanwhile
        self.assertEqual((None, None), self.healed())


@databases.on_each_database
class TestHealingOfNova(TestHealing):
    nova = True

    def map_cell(self):
        self.url = nova_databases.cell(self.kind)
        self.there = self.cell("cell1", self.url)


@databases.on_each_database
class TestRaces(InstancesTestCase):
    def setUp(self):
        super().setUp()
        self.database.retries = 30
        self.cell()

    def test_eight_register_the_same_instance(self):
        for number in range(5):
            each = str(uuid.UUID(int=number))
            outcomes = races.run(*(
                functools.partial(self.register, each, cell="cell1", ctx=self.context())
                for _ in range(8)))
            self.assertEqual([False] * 7 + [True], sorted(new for _, new in outcomes))
            self.assertEqual(1, len({found for found, _ in outcomes}))
        self.assertEqual(5, len(self.rows("instance_mappings")))

    def test_eight_say_something_else(self):
        for number in range(5):
            each = str(uuid.UUID(int=number))
            outcomes = races.run(*(
                functools.partial(self.register, each, user_id=f"user{user}",
                                  ctx=self.context()) for user in range(8)))
            lost = [type(one) for one in outcomes if isinstance(one, Exception)]
            self.assertEqual([errors.DuplicateInstance] * 7, lost, outcomes)

    def test_from_processes(self):
        said = processes.run(*(
            processes.Process(rivals.register, self.database, api_url=self.api_url, uuids=[
                str(uuid.UUID(int=number)) for number in range(20)])
            for _ in range(3)))
        new = [each[0]["new"] for each in said]
        self.assertEqual([1] * 20, [sum(of_one) for of_one in zip(*new, strict=True)])
        self.assertEqual(20, len(self.rows("instance_mappings")))

    def test_a_cell_is_removed_meanwhile(self):
        for number in range(5):
            name = f"cell{number + 2}"
            self.cell(name)
            each = str(uuid.UUID(int=number))
            registered, removed = races.run(
                functools.partial(self.register, each, cell=name, ctx=self.context()),
                functools.partial(mappings.delete, self.context(), self.cells, name))
            if removed is None:
                self.assertIsInstance(registered, errors.UnknownCell)
            else:
                self.assertIsInstance(removed, errors.CellInUse)
                self.assertTrue(registered[1])

    def test_two_make_the_tables_of_a_cell(self):
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        cell = self.cell("cell9", url)
        outcomes = races.run(*(
            functools.partial(schema.sync, self.context(), self.cells, cell)
            for _ in range(4)))
        self.assertEqual([], [each for each in outcomes if isinstance(each, Exception)])
        self.assertEqual(list(schema.TABLES), schema.list_present(self.cells.of(self.ctx, cell)))


@databases.on_each_database
class TestRacesOfNova(TestRaces):
    nova = True
