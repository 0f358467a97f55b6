"""Compute nodes as their callers see them: read with one query, saved to inventories."""

from __future__ import annotations

import threading
from typing import Any

import sqlalchemy as sa

from placement_core.cells import cell_tables, mappings
from placement_core.cells.records import Cell
from placement_core.compute import errors, nodes
from placement_core.compute.records import State
from placement_core.placement import allocations, errors as placement_errors, inventories
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from tests import databases
from tests.functional.compute import cases

#: What a caller sees of a node's capacity.
FIELDS = ("vcpus", "memory_mb", "local_gb", "cpu_allocation_ratio", "ram_allocation_ratio",
          "disk_allocation_ratio")


class Statements:
    """The statements that name a table, whichever thread sends them."""

    def __init__(self, *databases_: Any) -> None:
        self.sent: list[str] = []
        self._lock = threading.Lock()
        for database in databases_:
            for engine in (database.writer, database.autocommit, database.snapshot):
                sa.event.listen(engine, "before_cursor_execute", self._note)

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        with self._lock:
            self.sent.append(statement)

    def of(self, table: str) -> int:
        return sum(f"{table}" in statement for statement in self.sent)


@databases.on_each_database
class TestNodes(cases.CellsTestCase):
    def fields(self, node: Any) -> tuple[Any, ...]:
        return tuple(getattr(node, field) for field in FIELDS)

    def test_read_from_inventories(self) -> None:
        cell = self.cell()
        id_ = self.node(cell, uuid=factories.new_uuid())
        [before] = self.nodes.list_(self.ctx).nodes
        self.assertEqual((16, 65536, 1000, 16.0, 1.5, 1.0), self.fields(before))
        self.assertEqual((State.MIGRATED, ""), (before.state, before.reason))
        inventories.update(
            self.ctx, before.uuid, "VCPU", InventoryValues(8, allocation_ratio=2.0),
            generation=self.generation(before.uuid), allow_fully_reserved=True)
        # What an old service writes into the row does not count any more.
        self.change(cell, id_, local_gb=1)
        after = self.nodes.get(self.ctx, before.uuid)
        self.assertEqual((8, 65536, 1000, 2.0, 1.5, 1.0), self.fields(after))

    def test_one_query_for_all(self) -> None:
        cells = [self.cell("one"), self.cell("two")]
        for cell in cells:
            for _ in range(7):
                self.node(cell)
        self.nodes.migrate(self.ctx, 50)
        in_cells = [self.in_cell(cell).database for cell in cells]
        ours, theirs = Statements(self.database), Statements(*in_cells)
        listing = self.nodes.list_(self.ctx)
        self.assertEqual(14, len(listing.nodes))
        self.assertTrue(all(node.vcpus == 16 for node in listing.nodes))
        # The cell mappings are ours, too.
        self.assertEqual((1, 1, 2), (
            ours.of("inventories"), ours.of("cell_mappings"), len(ours.sent)))
        self.assertEqual((2, 2), (theirs.of("compute_nodes"), len(theirs.sent)))
        ours.sent.clear()
        theirs.sent.clear()
        self.nodes.get(self.ctx, listing.nodes[3].uuid)
        self.assertEqual((1, 2, 2), (
            ours.of("inventories"), len(ours.sent), len(theirs.sent)))

    def test_migrated_when_read(self) -> None:
        cell = self.cell()
        for _ in range(nodes.ON_LOAD + 3):
            self.node(cell)
        for expected in (3, 0):
            found = self.nodes.list_(self.ctx).nodes
            self.assertEqual(
                expected, sum(node.state is State.PENDING for node in found))
            self.assertTrue(all(self.fields(node) == (16, 65536, 1000, 16.0, 1.5, 1.0)
                                for node in found))
        self.assertTrue(all(node.uuid for node in found))

    def test_pages(self) -> None:
        cells = [self.cell("one"), self.cell("two"), self.cell("three")]
        wanted = [(cell.uuid, self.node(cell)) for cell in (cells[0], cells[0], cells[2])]
        wanted += [(cells[2].uuid, self.node(cells[2])) for _ in range(2)]
        seen: list[tuple[str, int]] = []
        after = None
        for more in (True, True, False):
            page = self.nodes.list_(self.ctx, after=after, limit=2)
            self.assertEqual(more, page.more)
            seen += [(node.cell.uuid, node.id) for node in page.nodes]
            after = seen[-1]
        self.assertEqual(wanted, seen)
        self.assertEqual(3, len(self.nodes.list_(self.ctx, cell="three").nodes))
        self.assertEqual([], list(self.nodes.list_(self.ctx, cell="two").nodes))
        self.assertEqual(
            3, len(self.nodes.list_(self.ctx, cell="three", after=wanted[0]).nodes))
        self.assertEqual([], list(self.nodes.list_(self.ctx, cell="one", after=wanted[-1]).nodes))
        # Its cell was removed between two pages: nobody knows where the next one begins.
        self.assertRaises(errors.BadMarker, self.nodes.list_, self.ctx, after=("gone", 1))

    def test_by_name_and_uuid(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        self.node(cell)
        id_ = self.node(cell, uuid=uuid, host="h", hypervisor_hostname="n")
        for name in ("h", "n"):
            [node] = self.nodes.list_(self.ctx, named=name).nodes
            self.assertEqual(id_, node.id)
        self.assertEqual(id_, self.nodes.get(self.ctx, uuid).id)
        self.assertRaises(
            errors.ComputeNodeNotFound, self.nodes.get, self.ctx, factories.new_uuid())
        self.change(cell, id_, deleted=id_)
        self.assertRaises(errors.ComputeNodeNotFound, self.nodes.get, self.ctx, uuid)

    def test_a_missing_cell_is_named(self) -> None:
        cell = self.cell()
        self.node(cell, uuid=factories.new_uuid())
        self.nodes.migrate(self.ctx, 9)
        mappings.create(self.ctx, self.cells, name="gone",
                        database_connection="sqlite:////nonexistent/cell.sqlite")
        listing = self.nodes.list_(self.ctx)
        self.assertEqual((1, ["gone"]), (
            len(listing.nodes), [each.name for each in listing.missing]))
        self.assertEqual(State.MIGRATED, listing.nodes[0].state)
        self.nodes.get(self.ctx, listing.nodes[0].uuid or "")
        self.assertRaises(errors.CellsMissing, self.nodes.get, self.ctx, factories.new_uuid())

    def test_two_of_one_uuid(self) -> None:
        uuid = factories.new_uuid()
        for name in ("one", "two"):
            self.node(self.cell(name), uuid=uuid, hypervisor_hostname=f"in-{name}")
        states = {node.hypervisor_hostname: node.state
                  for node in self.nodes.list_(self.ctx).nodes}
        self.assertEqual({"in-one": State.MIGRATED, "in-two": State.REFUSED}, states)
        error = self.assertRaises(
            errors.DuplicateComputeNode, self.nodes.get, self.ctx, uuid)
        self.assertIn("in-two", str(error))

    # Saving -----------------------------------------------------------------------

    def saved(self, uuid: str, **changes: Any) -> Any:
        return self.nodes.save(self.ctx, uuid, changes)

    def test_saved_to_inventories_only(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        id_ = self.node(cell, uuid=uuid)
        before = self.row(cell, id_)
        node = self.saved(uuid, vcpus=32, ram_allocation_ratio=1, local_gb=5)
        self.assertEqual((32, 65536, 5, 16.0, 1.0, 1.0), self.fields(node))
        found = self.inventories(uuid)
        self.assertEqual(InventoryValues(32, max_unit=32, allocation_ratio=16.0), found["VCPU"])
        self.assertEqual(
            InventoryValues(65536, 512, max_unit=65536, allocation_ratio=1.0),
            found["MEMORY_MB"])
        self.assertEqual(before, self.row(cell, id_))
        # The next migration leaves it alone, and so does the next reader.
        self.assertEqual(0, self.nodes.migrate(self.ctx, 9).found)
        self.assertEqual(self.fields(node), self.fields(self.nodes.get(self.ctx, uuid)))

    def test_nothing_of_a_class(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        self.node(cell, uuid=uuid)
        self.assertEqual(0, self.saved(uuid, local_gb=0).local_gb)
        self.assertNotIn("DISK_GB", self.inventories(uuid))
        self.assertEqual(7, self.saved(uuid, local_gb=7).local_gb)
        self.assertEqual(InventoryValues(7, max_unit=7), self.inventories(uuid)["DISK_GB"])
        allocations.replace(self.ctx, [AllocationWrite(
            factories.new_uuid(), {uuid: {"VCPU": 1}}, "project", "user")])
        self.assertRaises(placement_errors.InventoryInUse, self.saved, uuid, vcpus=0)
        self.assertEqual(16, self.nodes.get(self.ctx, uuid).vcpus)

    def test_what_one_instance_may_have_stays(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        self.node(cell, uuid=uuid, disk_available_least=100)
        self.saved(uuid, local_gb=2000)
        self.assertEqual(100, self.inventories(uuid)["DISK_GB"].max_unit)
        self.saved(uuid, local_gb=50)
        self.assertEqual(50, self.inventories(uuid)["DISK_GB"].max_unit)

    def test_to_the_row_while_the_gate_is_closed(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        id_ = self.node(cell, uuid=uuid)
        self.conductor(cell, 9)
        self.assertEqual(32, self.saved(uuid, vcpus=32, cpu_allocation_ratio=2.5).vcpus)
        self.assertEqual((32, 2.5), (
            self.row(cell, id_).vcpus, self.row(cell, id_).cpu_allocation_ratio))

    def test_a_cell_that_takes_no_uuid(self) -> None:
        """Its node has none; it and all others are read."""
        one, other = self.cell("one"), self.cell("other")
        self.node(one)
        id_ = self.node(other)
        self.conductor(one, 9)
        self.refuse_updates(one)
        refused, node = self.nodes.list_(self.ctx).nodes
        self.assertEqual((State.GATE_CLOSED, None, 16), (
            refused.state, refused.uuid, refused.vcpus))
        self.assertIn("has 9; it has no uuid, and its cell's database takes none", refused.reason)
        self.assertEqual((State.GATE_CLOSED, self.row(other, id_).uuid), (node.state, node.uuid))
        self.assertIsNotNone(node.uuid)
        services = cell_tables.services
        self.execute(one, sa.update(services).values(version=10))
        refused, node = self.nodes.list_(self.ctx).nodes
        self.assertEqual((State.REFUSED, None), (refused.state, refused.uuid))
        self.assertEqual("it has no uuid, and its cell's database takes none", refused.reason)
        self.assertEqual(State.MIGRATED, node.state)
        progress = self.nodes.migrate(self.ctx, 9)
        self.assertEqual((1, 0, 1), (progress.found, progress.done, len(progress.refused)))

    def refuse_updates(self, cell: Cell) -> None:
        """Let the database of a cell refuse every update of a compute node."""
        trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON compute_nodes "
        create, drop = {
            "sqlite": ([f"{trigger} BEGIN SELECT RAISE(ABORT, 'denied'); END"],
                       "DROP TRIGGER refuse"),
            "mysql": ([f"{trigger} FOR EACH ROW SIGNAL SQLSTATE '45000'"],
                      "DROP TRIGGER refuse"),
            "postgresql": (["CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                            "'BEGIN RAISE insufficient_privilege; END'",
                            f"{trigger} FOR EACH ROW EXECUTE FUNCTION refuse()"],
                           "DROP FUNCTION refuse CASCADE"),
        }[self.kind]
        for statement in create:
            self.execute(cell, sa.text(statement))
        self.addCleanup(self.execute, cell, sa.text(drop))

    def test_not_where_it_cannot_be_migrated(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        self.node(cell, uuid=uuid, hypervisor_hostname="taken")
        factories.provider(self.ctx, "taken")
        self.assertRaises(errors.NotMigratable, self.saved, uuid, vcpus=1)

    def test_values_that_make_no_sense(self) -> None:
        cell, uuid = self.cell(), factories.new_uuid()
        self.node(cell, uuid=uuid)
        for field, value in (("vcpus", -1), ("vcpus", 2**31), ("vcpus", 1.5), ("vcpus", "1"),
                             ("vcpus", True), ("vcpus", None), ("cpu_allocation_ratio", 0),
                             ("cpu_allocation_ratio", float("inf")),
                             ("cpu_allocation_ratio", -2.0), ("host", "h"), ("pci_stats", "")):
            self.assertRaises(errors.InvalidComputeNode, self.saved, uuid, **{field: value})
        self.assertRaises(errors.ComputeNodeNotFound, self.saved, "nothing", vcpus=1)
