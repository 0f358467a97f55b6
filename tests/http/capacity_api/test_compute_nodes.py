"""/capacity/v1/compute_nodes: what is shown of compute nodes, and to whom."""

from __future__ import annotations

from typing import Any
from urllib import parse

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import cell_tables, engines, mappings, schema
from placement_core.cells.records import Cell
from placement_core.testing import factories
from tests import databases
from tests.functional.compute import cases
from tests.functional.migrations import bare
from tests.http.base import HttpTestCase

PATH = "/capacity/v1/compute_nodes"


class NodesTestCase(HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(engines.SHARED.dispose)
        self.services = self.parts[0]

    def cell(self, name: str = "cell1") -> Cell:
        cells = self.services.cells
        ctx = self.services.context()
        made = mappings.create(ctx, cells, name=name,
                               database_connection=bare.database(self.kind, self.addCleanup))
        schema.sync(ctx, cells, made)
        return made

    def insert(self, cell: Cell, table: sa.Table, **values: Any) -> None:
        with db.write(self.services.cells.of(self.services.context(), cell)) as session:
            session.execute(sa.insert(table), values)

    def node(self, cell: Cell, name: str = "node", **values: Any) -> str:
        row = {**cases.NODE, "host": name, "hypervisor_hostname": name,
               "uuid": factories.new_uuid(), **values}
        self.insert(cell, cell_tables.compute_nodes, **row)
        return row["uuid"]


@databases.on_each_database
class TestComputeNodes(NodesTestCase):
    def test_show(self) -> None:
        cell = self.cell()
        uuid = self.node(cell, pci_stats="{")
        shown = self.ask("GET", f"{PATH}/{uuid}").json["compute_node"]
        provider = self.ask("GET", f"/resource_providers/{uuid}/inventories").json
        self.assertEqual(provider["inventories"], shown["inventories"])
        self.assertEqual(
            (uuid, True, "migrated", None, 16, 65536, 1000, 16.0, 1.5, 1.0), tuple(
                shown[field] for field in (
                    "resource_provider_uuid", "migrated", "state", "reason", "vcpus",
                    "memory_mb", "local_gb", "cpu_allocation_ratio", "ram_allocation_ratio",
                    "disk_allocation_ratio")))
        self.assertEqual({"uuid": cell.uuid, "name": "cell1"}, shown["cell"])
        self.assertNotIn("database_connection", str(shown))
        found = self.ask("GET", "/allocation_candidates?resources=VCPU:200,MEMORY_MB:90000").json
        self.assertEqual([], found["allocation_requests"])
        found = self.ask("GET", "/allocation_candidates?resources=VCPU:16,DISK_GB:1000").json
        self.assertEqual([uuid], list(found["provider_summaries"]))

    def test_why_not(self) -> None:
        cell = self.cell()
        uuid = self.node(cell)
        self.insert(cell, cell_tables.services, host="c", binary="nova-conductor",
                    topic="conductor", version=9, report_count=1, deleted=0)
        shown = self.ask("GET", f"{PATH}/{uuid}").json["compute_node"]
        self.assertEqual((False, "gate_closed", None, 16), tuple(
            shown[field] for field in ("migrated", "state", "resource_provider_uuid", "vcpus")))
        self.assertIn("nova-conductor on c in cell cell1 has 9", shown["reason"])
        self.assertEqual(
            404, self.ask("GET", f"/resource_providers/{uuid}").status_int)

    def test_list_by_pages(self) -> None:
        cells = [self.cell("one"), self.cell("two")]
        wanted = [self.node(cell, f"{cell.name}-{number}")
                  for cell in cells for number in range(2)]
        url, seen = f"{PATH}?limit=3", []
        while url:
            page = self.ask("GET", url).json
            self.assertEqual([], page["missing_cells"])
            seen.append([node["uuid"] for node in page["compute_nodes"]])
            url = page["links"]["next"]
        self.assertEqual([wanted[:3], wanted[3:]], seen)
        for query, expected in (
                ("cell=two", wanted[2:]), (f"cell={cells[0].uuid}", wanted[:2]),
                ("name=two-1", wanted[3:]), ("cell=one&name=two-1", []),
                ("limit=10000", wanted),
                (f"marker={cells[0].uuid}.9999999999", wanted[2:]),
                # A page of all cells ended there; this is a later cell, or an earlier one.
                (f"cell=two&marker={cells[0].uuid}.1", wanted[2:]),
                (f"cell=one&marker={cells[1].uuid}.1", [])):
            page = self.ask("GET", f"{PATH}?{query}").json
            self.assertEqual(
                expected, [node["uuid"] for node in page["compute_nodes"]], query)

    def test_a_missing_cell(self) -> None:
        self.node(self.cell())
        mappings.create(self.services.context(), self.services.cells, name="gone",
                        database_connection="sqlite:////nonexistent/secret.sqlite")
        page = self.ask("GET", PATH).json
        self.assertEqual(1, len(page["compute_nodes"]))
        [missing] = page["missing_cells"]
        self.assertEqual("gone", missing["name"])
        self.assertNotIn("secret", str(page))
        self.assert_refused(503, "gone", self.ask("GET", f"{PATH}/{factories.new_uuid()}"),
                            "compute.cells_missing")

    def test_two_of_one_uuid(self) -> None:
        uuid = self.node(self.cell("one"), "first")
        self.node(self.cell("two"), "second", uuid=uuid)
        self.assert_refused(409, "second in cell two", self.ask("GET", f"{PATH}/{uuid}"),
                            "compute.node.duplicate")
        states = [node["state"] for node in self.ask("GET", PATH).json["compute_nodes"]]
        self.assertEqual(["migrated", "refused"], states)

    def test_bad_input(self) -> None:
        cell = self.cell()
        self.node(cell)
        for query, status in (
                ("limit=0", 400), ("limit=-1", 400), ("limit=x", 400), ("limit=1.5", 400),
                ("limit=", 400), ("limit=" + "9" * 30, 400), ("marker=x", 400),
                ("marker=.1", 400), ("marker=a.b", 400), ("marker=a.-1", 400),
                ("marker=a." + "9" * 11, 400), ("marker=a.%D9%A1", 400), ("cell=nothing", 400),
                ("cell=%00", 400), ("cell=", 400), ("name=", 400), ("name=%00", 400),
                ("name=%F0%9F%90%8D", 200), ("cell=%F0%9F%90%8D", 400), ("what=1", 400),
                ("cell=" + "x" * 256, 400), ("marker=a.9999999999", 400),
                (f"marker={cell.uuid}.9999999999", 200)):
            self.assertEqual(
                status, self.ask("GET", f"{PATH}?{query}").status_int, query)
        gone = f"{factories.new_uuid()}.1"
        self.assert_refused(400, f"No page ended with {gone}",
                            self.ask("GET", f"{PATH}?marker={gone}"), "compute.node.marker")
        for uuid in ("nothing", "%00", "🐍", "x" * 300, factories.new_uuid(), "a b"):
            path = f"{PATH}/{uuid if uuid.startswith('%') else parse.quote(uuid)}"
            self.assertEqual(404, self.ask("GET", path).status_int, uuid)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            self.assertEqual(405, self.ask(method, PATH, {}).status_int)

    def test_who_may(self) -> None:
        for path in (PATH, f"{PATH}/{factories.new_uuid()}"):
            self.assertEqual(403, self.ask("GET", path, token="user:project").status_int)
            self.assertEqual(401, self.ask("GET", path, token=None).status_int)
