"""The contract step: refused while something is not migrated, then done once and for all."""

from __future__ import annotations

import fixtures
import sqlalchemy as sa
import testtools
from oslo_db import exception as db_exception

from placement_core.cells import backfill, cell_tables, instances, mappings
from placement_core.cells.records import Cell
from placement_core.compute.records import State
from placement_core.migrations import contract, revisions, sync
from placement_core.testing import factories
from tests import cell_databases, databases
from tests.functional.cells import test_backfill
from tests.functional.migrations import bare
from tests.functional.migrations.test_sync import BareTestCase, differences

CONTRACTED = {("instance_mappings", "user_id"), ("instance_mappings", "queued_for_delete")}
NODES = {("compute_nodes", "uuid")}


class ContractTestCase(test_backfill.BackfillTestCase):
    """A test on a database that nobody else gets."""

    def setUp(self) -> None:
        # What is contracted does not open up again for the next test.
        url = bare.database(self.kind, self.addCleanup)
        settings = databases.Settings(url, sqlite_synchronous=False)
        sync.sync(settings)
        self.useFixture(fixtures.MonkeyPatch("tests.databases.settings", lambda _: settings))
        super().setUp()

    def contract(self) -> list[str]:
        lines: list[str] = []
        sync.sync(self.database.settings, lines.append, contracted=True)
        return lines

    def not_null(self, url: str | None = None) -> set[tuple[str, str]]:
        """Return the columns that are NOT NULL and are not in our tables."""
        engine = sa.create_engine(url or self.database.url, poolclass=sa.NullPool)
        found = sa.inspect(engine)
        return {(table, column["name"]) for table, column in (
            (table, column) for table in ("instance_mappings", "compute_nodes")
            if found.has_table(table) for column in found.get_columns(table))
            if not column["nullable"] and (table, column["name"]) in CONTRACTED | NODES}


@databases.on_each_database
class TestContract(ContractTestCase):
    def test_refused_while_mappings_are_open(self) -> None:
        cell = self.cell()
        self.instance(cell)
        self.instance(None)
        with testtools.ExpectedException(
                contract.NotReady,
                "2 instance mappings .*online-data-migrations.*; 1 of them have no cell.*"):
            self.contract()
        self.assertEqual(set(), self.not_null())

    def test_done_once_and_for_all(self) -> None:
        cell = self.cell()
        uuids = [self.instance(cell) for _ in range(3)]
        self.users()
        self.states()
        before = self.values()
        self.assertEqual(
            ["instance_mappings.user_id is NOT NULL now",
             "instance_mappings.queued_for_delete is NOT NULL now"], self.contract()[1:])
        self.assertEqual(CONTRACTED, self.not_null())
        # Nothing else changed.
        self.assertEqual(before, self.values())
        self.assertEqual({("modify_nullable", *each) for each in CONTRACTED}, {
            (change[0][0], *change[0][2:4])  # type: ignore[index]
            for change in differences(self.database.settings.connection)})
        self.assertEqual(
            ["instance_mappings.user_id is NOT NULL already",
             "instance_mappings.queued_for_delete is NOT NULL already"], self.contract()[1:])
        # A plain sync neither contracts nor opens.
        sync.sync(self.database.settings)
        self.assertEqual(CONTRACTED, self.not_null())
        # And the service goes on.
        made, _ = instances.register(
            self.ctx, self.cells, uuid=factories.new_uuid(), project_id="p", user_id="u",
            cell=cell.name)
        self.assertEqual("u", instances.get(self.ctx, self.cells, made.uuid).user_id)
        self.assertRaises(db_exception.DBError, self.mapping, factories.new_uuid(), cell.id)
        self.assertEqual((0, 0), backfill.populate_user_id(self.ctx, 5, self.cells))
        self.assertIn(uuids[0], self.values())
        self.assertRaises(mappings.errors.CellInUse, mappings.delete, self.ctx, self.cells,
                          cell.name)

    def test_plain_sync_does_not(self) -> None:
        sync.sync(self.database.settings)
        self.assertEqual(set(), self.not_null())
        self.assertEqual([], differences(self.database.settings.connection))

    def test_nodes_in_our_own_database(self) -> None:
        cell = self.own_cell()
        self.node(cell)
        dead = self.node(cell, deleted=9)
        with testtools.ExpectedException(
                contract.NotReady, "1 compute nodes are not migrated.*online-data-migrations.*"):
            self.contract()
        self.assertEqual(set(), self.not_null())
        self.nodes.migrate(self.ctx, 9)
        self.contract()
        self.assertEqual(CONTRACTED | NODES, self.not_null())
        self.assertIsNotNone(self.row(cell, dead).uuid)
        self.contract()
        self.assertEqual(State.MIGRATED, self.nodes.list_(self.ctx).nodes[0].state)

    def cell_to_contract(self) -> Cell:
        """Make a cell whose nodes the next test does not find as this one leaves them."""
        cell = self.cell()
        # They are made anew where they are missing.
        self.addCleanup(cell_tables.metadata.drop_all,
                        cell_databases.open_engine(cell.database_connection))
        return cell

    def test_nodes_of_a_cell(self) -> None:
        cell = self.cell_to_contract()
        self.node(cell)
        lines: list[str] = []

        def contract_cell() -> None:
            contract.contract_cell(self.context(), self.cells, cell, lines.append)

        with testtools.ExpectedException(contract.NotReady, "1 compute nodes are not migrated.*"):
            contract_cell()
        self.nodes.migrate(self.ctx, 9)
        index = "DROP INDEX compute_nodes_uuid_idx" + (
            " ON compute_nodes" if self.kind == "mysql" else "")
        self.execute(cell, sa.text(index))
        contract_cell()
        self.assertEqual(
            ["compute_nodes.uuid is NOT NULL now", "compute_nodes.uuid is unique now"], lines)
        self.assertEqual(NODES, self.not_null(cell.database_connection))
        self.assertRaises(db_exception.DBError, self.node, cell, uuid=None)
        uuid = self.nodes.list_(self.ctx).nodes[0].uuid
        self.assertRaises(db_exception.DBDuplicateEntry, self.node, cell, uuid=uuid)
        lines.clear()
        contract_cell()
        self.assertEqual(["compute_nodes.uuid is NOT NULL already"], lines)

    def test_two_rows_of_one_uuid(self) -> None:
        cell = self.cell_to_contract()
        index = "DROP INDEX compute_nodes_uuid_idx" + (
            " ON compute_nodes" if self.kind == "mysql" else "")
        self.execute(cell, sa.text(index))
        uuid = factories.new_uuid()
        self.node(cell, uuid=uuid)
        self.node(cell, uuid=uuid, deleted=4)
        self.nodes.migrate(self.ctx, 9)
        with testtools.ExpectedException(contract.NotReady, f".*{uuid}.*"):
            contract.contract_cell(self.context(), self.cells, cell, [].append)

    def test_novas_tables_stay_as_they_are(self) -> None:
        cell = self.own_cell()
        self.instance(cell)
        self.node(cell)
        engine = sa.create_engine(self.database.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            for name in ("build_requests", "block_device_mapping"):
                connection.execute(sa.text(f"CREATE TABLE {name} (id INTEGER)"))
        self.contract()
        self.assertEqual(set(), self.not_null())
        with testtools.ExpectedException(contract.NotReady, ".*is nova's own.*"):
            contract.contract_cell(self.context(), self.cells, cell, [].append)

    def test_no_such_table(self) -> None:
        cell = mappings.create(
            self.ctx, self.cells, name="empty",
            database_connection=bare.database(self.kind, self.addCleanup))
        if self.kind == "sqlite":
            with sa.create_engine(cell.database_connection).begin() as connection:
                connection.execute(sa.text("CREATE TABLE something (id INTEGER)"))
        with testtools.ExpectedException(contract.NotReady, ".*placement-core cells sync.*"):
            contract.contract_cell(self.context(), self.cells, cell, [].append)


@databases.on_each_database
class TestNewDatabase(BareTestCase):
    def test_contracted_from_the_start(self) -> None:
        self.assertEqual(revisions.head(), sync.sync(self.settings, contracted=True))
        self.assertEqual(
            ["modify_nullable"] * 2,
            [change[0][0] for change in differences(self.url)])  # type: ignore[index]
