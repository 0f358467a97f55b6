"""Compute nodes become resource providers, one by one and in bulk."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception
from testtools import matchers

from placement_core.cells import cell_tables, schema
from placement_core.compute.records import State
from placement_core.migrations import online
from placement_core.placement import aggregates, allocations, inventories, providers
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from tests import databases, races
from tests.functional.compute import cases
from tests.unit.compute import samples


@databases.on_each_database
class TestMigration(cases.CellsTestCase):
    def migrate(self, most: int = 50) -> tuple[int, int]:
        progress = self.nodes.migrate(self.context(), most)
        self.troubles = progress.troubles
        return progress.found, progress.done

    def uuid(self, cell: Any, id_: int) -> str:
        return self.row(cell, id_).uuid

    def test_a_node_becomes_a_provider(self) -> None:
        cell = self.cell()
        id_ = self.node(cell, hypervisor_hostname="node.example")
        self.assertEqual((1, 1), self.migrate())
        uuid = self.uuid(cell, id_)
        provider = providers.get(self.ctx, uuid)
        self.assertEqual(("node.example", None), (provider.name, provider.parent_uuid))
        self.assertEqual({
            "VCPU": InventoryValues(16, max_unit=16, allocation_ratio=16.0),
            "MEMORY_MB": InventoryValues(65536, 512, max_unit=65536, allocation_ratio=1.5),
            "DISK_GB": InventoryValues(1000, max_unit=1000)}, self.inventories(uuid))
        self.assertEqual((0, 0), self.migrate())

    def test_in_our_own_database(self) -> None:
        cell = self.own_cell()
        ids = [self.node(cell) for _ in range(3)]
        self.assertEqual((3, 3), self.migrate())
        for id_ in ids:
            self.assertIn("VCPU", self.inventories(self.uuid(cell, id_)))

    def test_all_or_nothing_in_our_own_database(self) -> None:
        cell = self.own_cell()
        id_ = self.node(cell, hypervisor_hostname="taken")
        factories.provider(self.ctx, "taken")
        self.assertEqual((1, 0), self.migrate())
        self.assertIn("its name is that of resource provider", self.troubles[0])
        self.assertIsNone(self.uuid(cell, id_))

    def test_devices_in_use_count(self) -> None:
        cell = self.cell()
        id_ = self.node(cell, pci_stats=samples.pools(VF=1))
        self.execute(cell, sa.insert(cell_tables.pci_devices), [
            {"compute_node_id": id_, "address": f"0000:81:00.{number}", "dev_type": "type-VF",
             "status": status, "deleted": deleted}
            for number, (status, deleted) in enumerate(
                [("available", 0), ("allocated", 0), ("claimed", 0), ("removed", 0),
                 ("available", 4)])])
        other = self.node(cell, pci_stats=samples.pools(VF=1))
        self.migrate()
        self.assertEqual(3, self.inventories(self.uuid(cell, id_))["SRIOV_NET_VF"].total)
        self.assertEqual(1, self.inventories(self.uuid(cell, other))["SRIOV_NET_VF"].total)

    def test_new_classes_need_no_new_schema(self) -> None:
        """I8: an option names a class that nobody has heard of."""
        cell = self.cell()
        id_ = self.node(cell, pci_stats=samples.pools(quantum=7),
                        numa_topology=samples.SEED_TOPOLOGY)
        self.migrate()
        self.assertNotIn("CUSTOM_QUANTUM", self.inventories(self.uuid(cell, id_)))
        self.nodes = self.service(pci_classes={"type-quantum": "CUSTOM_QUANTUM"}).compute_nodes
        self.assertEqual((1, 1), self.migrate())
        found = self.inventories(self.uuid(cell, id_))
        self.assertEqual(7, found["CUSTOM_QUANTUM"].total)
        self.assertEqual((8, 4), (found["NUMA_CORE"].total, found["NUMA_CORE"].max_unit))

    def test_shared_storage(self) -> None:
        cell, aggregate = self.cell(), factories.new_uuid()
        factories.sharing_provider(
            self.ctx, inventory={"DISK_GB": 9000}, aggregates=[aggregate])
        uuids = [factories.new_uuid() for _ in range(3)]
        for uuid, memberships in zip(uuids, ([aggregate], [factories.new_uuid()], []),
                                     strict=True):
            factories.provider(self.ctx, uuid=uuid, aggregates=memberships)
            self.node(cell, uuid=uuid)
        self.migrate()
        self.assertEqual([False, True, True], [
            "DISK_GB" in self.inventories(uuid) for uuid in uuids])

    def test_a_node_that_is_full_when_it_is_migrated(self) -> None:
        """Its instances leave, and one as large as all of them fits."""
        cell = self.cell()
        id_ = self.node(cell, disk_available_least=5, local_gb_used=990)
        self.migrate()
        self.change(cell, id_, disk_available_least=995, local_gb_used=0)
        self.assertEqual((0, 0), self.migrate())
        disk = self.inventories(self.uuid(cell, id_))["DISK_GB"]
        self.assertEqual((1000, 995), (disk.total, disk.max_unit))

    # What is there already ------------------------------------------------------

    def test_what_a_provider_has_stays(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        factories.provider(self.ctx, uuid=uuid, inventory={"VCPU": 3})
        before = self.generation(uuid)
        self.node(cell, uuid=uuid)
        self.migrate()
        found = self.inventories(uuid)
        self.assertEqual((3, 65536), (found["VCPU"].total, found["MEMORY_MB"].total))
        self.assertEqual(before + 1, self.generation(uuid))

    def test_nothing_new_is_no_new_generation(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        factories.provider(
            self.ctx, uuid=uuid, inventory={"VCPU": 3, "MEMORY_MB": 4, "DISK_GB": 5})
        before = self.generation(uuid)
        self.node(cell, uuid=uuid)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual((0, 0), self.migrate())
        self.assertEqual(before, self.generation(uuid))

    def test_what_others_change_later_stays(self) -> None:
        cell = self.cell()
        id_ = self.node(cell, numa_topology=samples.SEED_TOPOLOGY)
        self.migrate()
        uuid = self.uuid(cell, id_)
        # As nova's compute service does: it knows nothing of NUMA classes.
        inventories.replace(
            self.ctx, uuid, {"VCPU": InventoryValues(12, reserved=1)},
            generation=self.generation(uuid), allow_fully_reserved=True)
        self.change(cell, id_, disk_available_least=3)
        self.assertEqual((0, 0), self.migrate())
        self.assertEqual({"VCPU": InventoryValues(12, reserved=1)}, self.inventories(uuid))

    def test_a_node_that_changed(self) -> None:
        cell = self.cell()
        id_ = self.node(cell)
        self.migrate()
        uuid = self.uuid(cell, id_)
        inventories.update(
            self.ctx, uuid, "VCPU", InventoryValues(12), generation=self.generation(uuid),
            allow_fully_reserved=True)
        before = self.generation(uuid)
        self.change(cell, id_, memory_mb=131072)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual((12, 131072), tuple(
            self.inventories(uuid)[name].total for name in ("VCPU", "MEMORY_MB")))
        self.assertEqual(before + 1, self.generation(uuid))
        self.assertEqual((0, 0), self.migrate())

    def test_what_a_node_has_no_more(self) -> None:
        """Devices of a type that no class is for are in its record all the time."""
        cell = self.cell()
        id_ = self.node(cell, pci_stats=samples.pools(VF=4, PF=1, vdpa=2))
        self.migrate()
        uuid = self.uuid(cell, id_)
        consumer = factories.new_uuid()
        allocations.replace(self.ctx, [AllocationWrite(
            consumer, {uuid: {"SRIOV_NET_VF": 1}}, "project", "user")])
        # What cannot be read is not gone.
        self.change(cell, id_, pci_stats="{")
        self.assertEqual((0, 0), self.migrate())
        self.change(cell, id_, memory_mb=1024)
        self.assertEqual((1, 1), self.migrate())
        self.assertIn("CUSTOM_PCI_SRIOV_PF", self.inventories(uuid))
        self.assertEqual((0, 0), self.migrate())
        self.change(cell, id_, pci_stats=samples.pools(vdpa=2))
        self.assertEqual((1, 1), self.migrate())
        found = self.inventories(uuid)
        self.assertNotIn("CUSTOM_PCI_SRIOV_PF", found)
        # Somebody uses it.
        self.assertIn("SRIOV_NET_VF", found)
        self.assertEqual((0, 0), self.migrate())
        self.change(cell, id_, memory_mb=2048)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual((0, 0), self.migrate())
        # Nobody does any more.
        allocations.delete(self.ctx, consumer)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual({"VCPU", "MEMORY_MB", "DISK_GB"}, set(self.inventories(uuid)))
        self.assertEqual((0, 0), self.migrate())

    def test_what_cannot_be_parsed_keeps_its_own_classes_only(self) -> None:
        cell, aggregate = self.cell(), factories.new_uuid()
        id_ = self.node(
            cell, pci_stats=samples.pools(PCI=1), numa_topology=samples.SEED_TOPOLOGY)
        self.migrate()
        uuid = self.uuid(cell, id_)
        numa = {"NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB"}
        factories.sharing_provider(
            self.ctx, inventory={"DISK_GB": 9000}, aggregates=[aggregate])
        aggregates.join(self.ctx, uuid, aggregate)
        self.change(cell, id_, pci_stats=None, numa_topology="{", cpu_allocation_ratio=-1.0)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual({"VCPU", "MEMORY_MB", *numa}, set(self.inventories(uuid)))
        self.assertEqual((0, 0), self.migrate())

    def test_what_a_node_has_again(self) -> None:
        """What was used all the time stayed, and stays."""
        cell = self.cell()
        id_ = self.node(cell, pci_stats=samples.pools(VF=4))
        self.migrate()
        uuid, consumer = self.uuid(cell, id_), factories.new_uuid()
        allocations.replace(self.ctx, [AllocationWrite(
            consumer, {uuid: {"SRIOV_NET_VF": 1}}, "project", "user")])
        self.change(cell, id_, pci_stats=None)
        self.assertEqual((0, 0), self.migrate())
        self.change(cell, id_, pci_stats=samples.pools(VF=3))
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual(3, self.inventories(uuid)["SRIOV_NET_VF"].total)
        allocations.delete(self.ctx, consumer)
        self.assertEqual((0, 0), self.migrate())
        self.assertIn("SRIOV_NET_VF", self.inventories(uuid))

    def test_a_provider_that_was_removed(self) -> None:
        cell = self.cell()
        id_ = self.node(cell)
        self.migrate()
        uuid = self.uuid(cell, id_)
        providers.delete(self.ctx, uuid)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual({"VCPU", "MEMORY_MB", "DISK_GB"}, set(self.inventories(uuid)))

    # What cannot be migrated ------------------------------------------------------

    def test_two_nodes_with_one_uuid(self) -> None:
        one, other, uuid = self.cell("one"), self.cell("other"), factories.new_uuid()
        first = self.node(one, uuid=uuid, hypervisor_hostname="first", vcpus=1)
        second = self.node(other, uuid=uuid, hypervisor_hostname="second", vcpus=2)
        self.assertEqual((2, 1), self.migrate())
        self.assertThat(self.troubles[0], matchers.MatchesRegex(
            f".*second in cell other: its uuid {uuid} is that of first in cell one, too"))
        self.assertEqual(1, self.inventories(uuid)["VCPU"].total)
        # The first one is no more: its uuid went with the host.
        self.change(one, first, deleted=first)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual(2, self.inventories(uuid)["VCPU"].total)
        self.assertEqual((0, 0), self.migrate())
        self.change(other, second, deleted=second)
        self.assertEqual((0, 0), self.migrate())

    def test_bad_rows_hold_up_nobody(self) -> None:
        cell = self.cell()
        for number in range(4):
            self.node(cell, uuid=f"no-uuid-{number}")
        self.node(cell, host=None, hypervisor_hostname="x" * 201)
        ids = [self.node(cell, numa_topology="{", cpu_allocation_ratio=-1.0), self.node(cell)]
        self.assertEqual((6, 1), self.migrate(1))
        self.assertEqual((1, 1), self.migrate(1))
        self.assertEqual((5, 0), self.migrate(1))
        self.assertEqual({"MEMORY_MB", "DISK_GB"},
                         set(self.inventories(self.uuid(cell, ids[0]))))
        self.assertIn("VCPU", self.inventories(self.uuid(cell, ids[1])))

    def test_batches_of_one(self) -> None:
        cells = [self.cell("one"), self.cell("two")]
        for cell in cells:
            for _ in range(3):
                self.node(cell)
        self.assertEqual([1] * 6 + [0], [self.migrate(1)[1] for _ in range(7)])

    # The gate --------------------------------------------------------------------

    def test_waits_for_every_service(self) -> None:
        one, other = self.cell("one"), self.cell("other")
        self.conductor(one)
        self.conductor(one, 9, deleted=5)
        self.conductor(other, 3, binary="nova-scheduler", topic="scheduler")
        id_ = self.node(one)
        for version in (9, None):
            self.conductor(other, version, binary="nova-osapi_compute", topic=f"t{version}",
                           disabled=True)
            self.assertEqual((1, 0), self.migrate())
            self.assertThat(self.troubles[0], matchers.MatchesRegex(
                f".*nova-osapi_compute on .* in cell other has {version or 0}.*"))
            node = self.nodes.list_(self.ctx).nodes[0]
            self.assertEqual((State.GATE_CLOSED, 16), (node.state, node.vcpus))
            # That waits for nobody.
            self.assertEqual(node.uuid, self.uuid(one, id_))
            table = cell_tables.services
            self.execute(other, sa.update(table).where(
                table.c.binary == "nova-osapi_compute").values(version=10))
        self.assertEqual((1, 1), self.migrate())

    def test_a_missing_cell_closes_it(self) -> None:
        cell = self.cell()
        self.node(cell)
        self._missing_cell()
        self.assertEqual((1, 0), self.migrate())
        self.assertIn("these cells are missing, and may have older services: gone",
                      self.troubles[0])

    def test_a_cell_that_does_not_tell_its_devices(self) -> None:
        """Its nodes are not "nothing to do"."""
        cell, other = self.cell("cell1"), self.cell("cell2")
        for each in (cell, other):
            self.node(each)
        self.execute(cell, sa.schema.DropTable(cell_tables.pci_devices))
        self.assertEqual((1, 1), self.migrate())
        [trouble] = self.troubles
        self.assertIn("Cell cell1 is missing", trouble)
        schema.sync(self.ctx, self.cells, cell)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual([], self.troubles)

    def _missing_cell(self) -> None:
        from placement_core.cells import mappings

        mappings.create(self.ctx, self.cells, name="gone",
                        database_connection="sqlite:////nonexistent/cell.sqlite")

    # Two at once -------------------------------------------------------------------

    def test_two_runs_make_one_provider(self) -> None:
        for cell in (self.cell(), self.own_cell()):
            for _ in range(5):
                id_ = self.node(cell, pci_stats=samples.pools(PF=1))
                one, other = self.service(), self.service()
                outcomes = races.run(*(
                    lambda parts=parts: parts.compute_nodes.migrate(parts.context(), 9)
                    for parts in (one, other)))
                for outcome in outcomes:
                    self.assertNotIsInstance(outcome, Exception)
                    self.assertEqual([], outcome.troubles)
                uuid = self.uuid(cell, id_)
                self.assertEqual(16, self.inventories(uuid)["VCPU"].total)
                self.assertEqual(1, self.inventories(uuid)["CUSTOM_PCI_SRIOV_PF"].total)
                self.assertEqual((0, 0), self.migrate())

    def test_one_run_is_a_moment_behind(self) -> None:
        """The other one makes the provider after this one has looked for it."""
        if self.kind == "sqlite":
            self.skipTest("SQLite lets one writer in at a time")
        cell = self.cell()
        id_ = self.node(cell)
        other = self.service()
        found: list[object] = []

        def meanwhile(_connection, _cursor, statement, *_anything) -> None:
            if not found and "FROM resource_providers" in statement:
                found.append(other.compute_nodes.migrate(other.context(), 9))

        engine = self.parts.database.writer
        sa.event.listen(engine, "after_cursor_execute", meanwhile)
        self.addCleanup(sa.event.remove, engine, "after_cursor_execute", meanwhile)
        outcome = self.parts.compute_nodes.migrate(self.ctx, 9)
        self.assertEqual(1, len(found))
        self.assertEqual([], outcome.troubles)
        self.assertEqual(16, self.inventories(self.uuid(cell, id_))["VCPU"].total)

    def test_a_deadlock_is_no_refusal(self) -> None:
        """Whatever passes is repeated, also where the uuid is a part of the transaction."""
        cell = self.own_cell()
        id_ = self.node(cell)
        deadlocks: list[str] = []

        def refuse_once(_connection, _cursor, statement, *_anything) -> None:
            if not deadlocks and statement.startswith("UPDATE compute_nodes"):
                deadlocks.append(statement)
                raise db_exception.DBDeadlock

        engine = self.parts.database.writer
        sa.event.listen(engine, "before_cursor_execute", refuse_once)
        self.addCleanup(sa.event.remove, engine, "before_cursor_execute", refuse_once)
        self.assertEqual((1, 1), self.migrate())
        self.assertEqual((1, []), (len(deadlocks), self.troubles))
        self.assertEqual(16, self.inventories(self.uuid(cell, id_))["VCPU"].total)

    def test_by_the_command(self) -> None:
        cell = self.cell()
        for _ in range(3):
            self.node(cell)
        lines: list[str] = []
        outcome = online.run(self.ctx, None, lines.append, online.list_migrations(self.parts))
        self.assertEqual((online.DONE, (3, 3)), (
            outcome.exit_code, outcome.counts["migrate_compute_nodes"]))
