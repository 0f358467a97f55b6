"""What the service does with nova's databases needs no more than the privileges in the guide."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.cells import (
    backfill,
    build_requests,
    cell_tables,
    errors,
    instances,
    mappings,
    schema,
    server_groups,
)
from placement_core.compute import gate, health, rows
from placement_core.testing import factories
from tests import databases, nova_databases
from tests.functional.cells import cases

_API = {
    "cell_mappings": "SELECT, INSERT, UPDATE, DELETE",
    "instance_mappings": "SELECT, INSERT, UPDATE, DELETE",
    "build_requests": "SELECT", "instance_groups": "SELECT", "instance_group_member": "SELECT"}
_CELL = {
    "instances": "SELECT", "services": "SELECT", "pci_devices": "SELECT",
    "compute_nodes": "SELECT, UPDATE"}


@databases.on_each_database
class TestPrivileges(cases.CellsTestCase):
    nova = True

    def setUp(self) -> None:
        if self.kind == "sqlite":
            self.skipTest("SQLite has no users")
        super().setUp()
        self.novas_url = self.api_url
        self.api_url = nova_databases.restrict(self.novas_url, _API, self.addCleanup)
        self.cells = self.databases()

    def test_cells(self) -> None:
        cell = self.cell()
        self.insert(self.novas_url, "host_mappings", cell_id=cell.id, host="compute1")
        mappings.update(self.ctx, self.cells, "cell1", {"disabled": True})
        # nova's reference is held, whether or not its table may be seen.
        self.assertRaises(errors.CellInUse, mappings.delete, self.ctx, self.cells, "cell1")
        mappings.delete(self.ctx, self.cells, self.cell("cell2").uuid)

    def test_instances_and_groups(self) -> None:
        uuid, group = factories.new_uuid(), factories.new_uuid()
        instances.register(self.ctx, self.cells, uuid=uuid, project_id="p", user_id="u")
        instances.update(self.ctx, self.cells, uuid, queued_for_delete=True)
        self.insert(self.novas_url, "instance_groups", id=1, uuid=group, project_id="p")
        self.insert(self.novas_url, "instance_group_member", group_id=1, instance_uuid=uuid)
        self.assertEqual([uuid], server_groups.list_members(
            self.ctx, self.cells, group, project_id="p"))
        self.assertEqual({}, build_requests.list_reservation_ids(self.ctx, self.cells, [uuid]))

    def test_groups_that_cannot_be_read(self) -> None:
        """The refusal says what is missing, and shows no password."""
        restricted = sa.make_url(self.api_url)
        engine = sa.create_engine(self.novas_url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(
                f"REVOKE SELECT ON instance_groups FROM {restricted.username}")
        refusal = self.assertRaises(
            errors.UnreadableServerGroups, server_groups.list_members, self.ctx, self.cells,
            "group", project_id="p")
        self.assertIn("SELECT on instance_groups", str(refusal))
        self.assertNotIn(restricted.password, str(refusal))

    def test_a_cell(self) -> None:
        novas_url = nova_databases.cell(self.kind)
        cell = self.cell(url=nova_databases.restrict(novas_url, _CELL, self.addCleanup))
        uuid = factories.new_uuid()
        self.insert(novas_url, "instances", uuid=uuid, user_id="jane", deleted=0)
        self.insert(self.novas_url, "instance_mappings", instance_uuid=uuid, cell_id=cell.id,
                    project_id="p")
        self.assertEqual("jane", instances.get(self.ctx, self.cells, uuid).user_id)
        self.assertEqual(0, backfill.count_without_user_id(self.ctx, self.cells))
        self.insert(novas_url, "compute_nodes", deleted=0, **{
            column.name: "none" if column.type.python_type is str else 0
            for column in cell_tables.compute_nodes.c if not column.nullable})
        cell_ctx = self.cells.of(self.ctx, cell)
        [node] = rows.list_page(cell_ctx, after=-1, most=10)
        self.assertIsNotNone(rows.give_uuid(cell_ctx, node.id))
        self.assertEqual({}, rows.count_devices(cell_ctx, [node.id]))
        self.assertTrue(gate.check(self.ctx, self.cells, 0).open)
        self.assertTrue(health.check(self.ctx, self.cells, [cell], 0).complete)
        answers = schema.check(self.ctx, self.cells, [cell]).answers
        self.assertEqual(set(schema.TABLES), set(answers[cell.uuid]))
