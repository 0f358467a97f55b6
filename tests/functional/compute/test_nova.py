"""Compute nodes in cell databases that ``nova-manage`` made."""

from __future__ import annotations

import datetime

import fixtures
import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.cells import cell_tables
from placement_core.compute.records import State
from placement_core.migrations import contract
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import databases, nova_databases
from tests.functional.compute import cases
from tests.unit.compute import samples


@databases.on_each_database
class TestNovaCells(cases.CellsTestCase):
    def setUp(self) -> None:
        self.options = {("api_database", "connection"): nova_databases.api(self.kind)}
        super().setUp()
        self.one, self.two = (
            self.cell(name, nova_databases.cell(self.kind, name)) for name in ("one", "two"))

    def device(self, node_id: int, number: int, status: str) -> None:
        engine, tables = nova_databases.reflected(self.one.database_connection, "pci_devices",
                                                  "compute_nodes")
        with engine.begin() as connection:
            connection.execute(sa.insert(tables["pci_devices"]), {
                "compute_node_id": node_id, "address": f"0000:81:00.{number}",
                "vendor_id": "8086", "product_id": "154c", "dev_type": "type-VF",
                "label": "label_8086_154c", "status": status, "deleted": 0})

    def test_migrated(self) -> None:
        id_ = self.node(self.one, cpu_allocation_ratio=None, numa_topology=samples.SEED_TOPOLOGY,
                        pci_stats=samples.pools(VF=1))
        other = self.node(self.two, uuid=factories.new_uuid())
        for number, status in enumerate(("available", "allocated", "removed")):
            self.device(id_, number, status)
        self.conductor(self.one, 74)
        self.conductor(self.two, 9, binary="nova-osapi_compute", topic=None)
        before = self.row(self.one, id_)
        [node, _] = self.nodes.list_(self.ctx).nodes
        self.assertEqual((State.GATE_CLOSED, 16, 4.0), (
            node.state, node.vcpus, node.cpu_allocation_ratio))
        table = cell_tables.services
        self.execute(self.two, sa.update(table).values(version=74))
        progress = self.nodes.migrate(self.ctx, 50)
        self.assertEqual((2, 2, []), (progress.found, progress.done, progress.troubles))
        uuid = self.row(self.one, id_).uuid
        self.assertEqual({
            "VCPU": InventoryValues(16, max_unit=16, allocation_ratio=4.0),
            "MEMORY_MB": InventoryValues(65536, 512, max_unit=65536, allocation_ratio=1.5),
            "DISK_GB": InventoryValues(1000, max_unit=1000),
            "SRIOV_NET_VF": InventoryValues(2, max_unit=2),
            "NUMA_SOCKET": InventoryValues(2, max_unit=1),
            "NUMA_CORE": InventoryValues(8, max_unit=4),
            "NUMA_THREAD": InventoryValues(16, max_unit=8),
            "NUMA_MEMORY_MB": InventoryValues(65536, max_unit=32768),
        }, self.inventories(uuid))
        # Of nova's row, only the uuid was written.
        after = self.row(self.one, id_)
        ours = {"uuid": None, "updated_at": None}
        self.assertEqual({**before._mapping, **ours}, {**after._mapping, **ours})
        self.assertIn("VCPU", self.inventories(self.row(self.two, other).uuid))
        shown = self.nodes.get(self.ctx, uuid)
        self.assertEqual((State.MIGRATED, datetime.UTC), (
            shown.state, shown.created_at and shown.created_at.tzinfo))

    def test_never_contracted(self) -> None:
        self.node(self.one)
        self.nodes.migrate(self.ctx, 50)
        self.assertRaises(
            contract.NotReady, contract.contract_cell, self.ctx, self.cells, self.one, [].append)
        self.node(self.one, uuid=None)

    def test_a_database_that_takes_no_writes(self) -> None:
        self.useFixture(self._no_writes())
        refused = self.node(self.one, hypervisor_hostname="refused")
        self.node(self.one, uuid=factories.new_uuid())
        progress = self.nodes.migrate(self.ctx, 50)
        self.assertEqual((2, 1), (progress.found, progress.done))
        self.assertIn("refused in cell one: it has no uuid, and its cell's database takes none",
                      progress.troubles[0])
        self.assertIsNone(self.row(self.one, refused).uuid)

    def _no_writes(self) -> object:
        def give_uuid(_ctx: object, _id: int) -> None:
            raise db_exception.DBError(Exception("permission denied"))

        return fixtures.MonkeyPatch("placement_core.compute.rows.give_uuid", give_uuid)
