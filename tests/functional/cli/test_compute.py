"""``placement-core compute …``, online migrations, the contract step and its warnings."""

from __future__ import annotations

import functools
import json
import pathlib

import fixtures
import sqlalchemy as sa

from placement_core import services
from placement_core.cells import cell_tables
from placement_core.compute.nodes import ComputeNodes
from placement_core.migrations import online
from placement_core.placement import resource_classes
from tests.functional.cli import commands, test_commands
from tests.functional.compute import cases
from tests.functional.migrations import bare
from tests.http import base


class TestComputeCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.cell_url = bare.database("sqlite", self.addCleanup)
        self.run_command("cells", "add", "cell1", "--database", self.cell_url)
        self.run_command("cells", "sync", "--all")

    def insert(self, table: sa.Table, **values: object) -> None:
        with sa.create_engine(self.cell_url, poolclass=sa.NullPool).begin() as connection:
            connection.execute(sa.insert(table), values)

    def node(self, name: str, **values: object) -> None:
        self.insert(cell_tables.compute_nodes, **{
            **cases.NODE, "host": name, "hypervisor_hostname": name, **values})

    def check(self, code: int, **more: str) -> str:
        """Return what the upgrade check says, in one line."""
        printed = self.run_command("status", "upgrade", "check", code=code, **more)
        return " ".join(printed.replace("|", " ").split())

    def listed(self, *arguments: str) -> list[dict[str, object]]:
        return json.loads(self.run_command("compute", "list", "-f", "json", *arguments))

    def test_migrate_and_list(self) -> None:
        for number in range(60):
            self.node(f"node-{number}")
        self.assertIn("60 compute nodes are not migrated", self.check(1))
        code, printed, shown = commands.run_on_terminal(
            "compute", "migrate", connection=self.connection)
        self.assertEqual((0, "60 compute nodes migrated\n"), (code, printed))
        self.assertRegex(shown, "compute nodes .*60/60")
        self.assertEqual("0 compute nodes migrated\n", self.run_command("compute", "migrate"))
        self.assertNotIn("not migrated", self.check(0))
        found = self.listed()
        self.assertEqual(60, len(found))
        self.assertEqual(("migrated", 16, {"total": 16, "reserved": 0, "max_unit": 16,
                                           "allocation_ratio": 16.0}), (
            found[0]["state"], found[0]["vcpus"],
            found[0]["inventories"]["VCPU"]))  # type: ignore[index]
        [one] = self.listed("--name", "node-7")
        self.assertEqual("node-7", one["hypervisor_hostname"])
        self.assertIn("VCPU: 16", self.run_command("compute", "list", "--cell", "cell1"))
        self.run_command("compute", "list", "--cell", "nothing", code=1)

    def test_no_progress(self) -> None:
        """Nodes that are due again as soon as they are migrated: every command ends."""
        for number in range(60):
            self.node(f"node-{number}")
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.compute.migration.is_due", lambda *_anything: True))
        self.run_command("compute", "migrate", code=1)
        self.assertIn("60 wait, no fewer than before", self.stderr)
        done = commands.run("db", "online-data-migrations", connection=self.connection)
        self.assertEqual(online.FAILED, done.returncode)
        self.assertIn("migrate_compute_nodes failed: it makes no progress", done.stdout)

    def test_what_is_left_and_why(self) -> None:
        self.node("good", pci_stats="{")
        self.node("bad", uuid="nonsense")
        printed = self.run_command("compute", "migrate", code=1)
        self.assertIn("pci_stats cannot be understood", printed)
        self.assertIn("Compute node bad in cell cell1: 'nonsense' is not a uuid", printed)
        self.insert(cell_tables.services, host="c", binary="nova-conductor", topic="conductor",
                    version=3, report_count=1, deleted=0)
        printed = self.run_command("compute", "migrate", code=1)
        self.assertIn("1 compute nodes have to wait: a service version of 10", printed)
        self.assertIn("1 compute nodes have to wait", self.check(1))
        done = commands.run("db", "online-data-migrations", connection=self.connection)
        self.assertEqual(0, done.returncode)
        self.assertIn("1 compute nodes have to wait", done.stderr)

    def test_a_cell_that_is_down(self) -> None:
        self.node("good")
        self.run_command("compute", "migrate")
        self.run_command("cells", "add", "gone", "--database", "sqlite:////nonexistent/c")
        self.assertEqual("good", json.loads(self.run_command(
            "compute", "list", "-f", "json", code=1))[0]["hypervisor_hostname"])
        self.assertIn("cell gone is missing", self.stderr)
        self.assertIn("Cell gone is missing", self.run_command("compute", "migrate", code=1))

    def test_a_cell_that_is_down_before_many_nodes(self) -> None:
        """The pages after the first ask only the cells behind it."""
        self.run_command("cells", "add", "gone", "--database", "sqlite:////nonexistent/c")
        self.execute("UPDATE cell_mappings SET id = 0 WHERE name = 'gone'")
        for name in ("one", "two", "three"):
            self.node(name)
        small = functools.partialmethod(ComputeNodes.list_, limit=1)
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.compute.nodes.ComputeNodes.list_", small))
        self.assertEqual(3, len(json.loads(self.run_command(
            "compute", "list", "-f", "json", code=1))))
        self.assertEqual(1, self.stderr.count("cell gone is missing"))

    def test_contract(self) -> None:
        self.node("good")
        self.execute("INSERT INTO instance_mappings (instance_uuid, project_id) "
                     "VALUES ('u1', 'p')")
        self.run_command("db", "sync", "--contract", code=1)
        self.assertIn("1 instance mappings have no user_id or no queued_for_delete", self.stderr)
        self.assertEqual(1, self.stderr.count("\n"))
        self.assertIn("1 instance mappings have no user_id", self.check(1))
        self.execute("DELETE FROM instance_mappings")
        self.run_command("compute", "contract", "cell1", code=1)
        self.assertIn("1 compute nodes are not migrated", self.stderr)
        self.run_command("compute", "migrate")
        self.assertIn("compute_nodes.uuid is NOT NULL now",
                      self.run_command("compute", "contract", "cell1"))
        self.assertIn("instance_mappings.user_id is NOT NULL now",
                      self.run_command("db", "sync", "--contract"))
        self.check(0)

    def test_limits_that_nothing_counts(self) -> None:
        folder = pathlib.Path(self.cell_url.removeprefix("sqlite:///")).parent
        catalog, limits = folder / "catalog.yaml", folder / "limits.yaml"
        catalog.write_text("services: [{type: compute, name: nova}, {type: network}]")
        limits.write_text("{service: compute, resources: {'class:VCPU': 1, cores: 2, fips: 3,"
                          " 'lease:host_hours': 4}}")
        self.run_command("catalog", "load", str(catalog))
        self.run_command("limits", "register", str(limits))
        # Others are counted by their own services.
        limits.write_text("{service: network, resources: {ports: 1}}")
        self.run_command("limits", "register", str(limits))
        printed = self.check(1)
        self.assertIn("nothing is held to: fips.", printed)
        counted = {"OS_QUOTA__RESOURCE_MAP": "cores=VCPU,fips=CUSTOM_FIP"}
        self.assertIn("nothing is held to: fips. The counting driver does not count them",
                      self.check(1, **counted))
        counted["OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT"] = "true"
        self.assertIn("Limits on fips count CUSTOM_FIP, and there is no such resource class.",
                      self.check(1, **counted))
        parts = services.build(base.configuration(self.connection))
        self.addCleanup(parts.database.dispose)
        resource_classes.create(parts.context(), "CUSTOM_FIP")
        self.assertNotIn("fips", self.check(0, **counted))
