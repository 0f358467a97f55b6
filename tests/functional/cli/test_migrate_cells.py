"""``placement-core migrate … --from nova-api=…``: what it prints of cells."""

from __future__ import annotations

import json
import pathlib

import fixtures
import sqlalchemy as sa

from tests import nova_databases
from tests.functional.cli import test_commands

_CELL = "11111111-0000-4000-8000-000000000000"
_CATALOG = "services: [{type: compute, name: nova, id: nova}]\n"
_DATABASE = "mysql+pymysql://nova:{password}@{host}/nova_cell1?charset=utf8"


class TestMigrateCells(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.source = nova_databases.api("sqlite")
        catalog = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "catalog.yaml")
        catalog.write_text(_CATALOG)
        self.run_command("db", "sync")
        self.run_command("catalog", "load", str(catalog))
        self.change_nova("cell_mappings", sa.insert, uuid=_CELL, name="cell1", disabled=False,
                         id=1, transport_url="rabbit://nova:secret1@bus:5672/",
                         database_connection=_DATABASE.format(password="secret2", host="db"))

    def change_nova(self, table: str, change=sa.insert, **values: object) -> None:
        engine, tables = nova_databases.reflected(self.source, table)
        with engine.begin() as connection:
            connection.execute(change(tables[table]).values(values))
        engine.dispose()

    def migrate(self, command: str, *options: str, code: int = 0, **more: str) -> str:
        printed = self.run_command(
            "migrate", command, "--from", f"nova-api={self.source}", *options, code=code, **more)
        self.assertNotIn("secret", printed + self.stderr)
        return printed

    def rows(self, *arguments: str, **more) -> list[dict]:
        return json.loads(self.migrate(*arguments, "-f", "json", **more))

    def test_passwords_are_never_printed(self) -> None:
        self.rows("check")
        self.migrate("check")
        self.rows("copy", "--execute")
        self.assertEqual([], self.rows("diff"))
        self.change_nova("cell_mappings", sa.update, database_connection=_DATABASE.format(
            password="secret3", host="db"))
        [row] = self.rows("diff", code=1)
        masked = json.dumps(_DATABASE.format(password="***", host="db"))
        self.assertEqual(
            ("cell", _CELL, "different",
             f"database_connection: {masked}, with another password here than there"),
            (row["kind"], row["id"], row["difference"], row["details"]))
        self.migrate("diff", code=1)
        self.change_nova("cell_mappings", sa.update, transport_url="rabbit://u:secret@bus2/",
                         database_connection=_DATABASE.format(password="secret3", host="db2"))
        other = json.dumps(_DATABASE.format(password="***", host="db2"))
        for command, code in (("check", 0), ("copy", 0)):
            [row] = [row for row in self.rows(command, code=code) if row["outcome"] == "update"]
            self.assertIn(f"database_connection: {masked} here, {other} there", row["details"])
            self.assertIn('"rabbit://u:***@bus2/" there', row["details"])
        self.migrate("copy", "--execute")
        self.assertEqual([], self.rows("diff"))
        self.assertIn("secret3", str(self.read_cells()), "what is copied is not masked")

    def test_what_is_refused(self) -> None:
        """An instance of a cell whose URL is not allowed is refused with it."""
        self.change_nova("cell_mappings", sa.update,
                         database_connection="mysql://u@db/nova?local_infile=1")
        for number in range(3):
            self.change_nova("instance_mappings", instance_uuid=f"{number:036}", cell_id=1,
                             project_id="web", user_id="ann", queued_for_delete=False)
        self.migrate("copy", "--execute", code=2)
        self.assertEqual({("cell", "left out", 1), ("instance mapping", "left out", 3)}, {
            (row["kind"], row["difference"], row["records"]) for row in self.rows("diff")})
        self.assertIn("nova-api: equal but for 4 records that cannot be copied (",
                      self.run_command("migrate", "status"))

    def read_cells(self) -> list:
        with sa.create_engine(self.connection, poolclass=sa.NullPool).connect() as connection:
            return connection.execute(
                sa.text("SELECT database_connection FROM cell_mappings")).all()

    def test_what_is_counted(self) -> None:
        for number in range(3):
            self.change_nova("host_mappings", host=f"compute{number}", cell_id=1)
            self.change_nova("instance_mappings", instance_uuid=f"{number:036}", cell_id=1,
                             project_id="web", user_id="ann", queued_for_delete=False)
        rows = [row for row in self.rows("check", code=1) if "limit" not in row["kind"]]
        self.assertEqual([
            ("cell", _CELL, "create", ""),
            ("host mapping", "", "skipped",
             "3 records: which host is in which cell is read in the databases of the cells"),
            ("instance mapping", "", "create", "3 records")],
            [(row["kind"], row["id"], row["outcome"], row["details"]) for row in rows])
        printed = self.migrate("check", code=1)
        self.assertRegex(printed, r"instance mappings +3 create\n")
        self.assertRegex(printed, r"host mappings +3 skipped\n")
        self.migrate("copy", "--execute", code=1)
        self.assertEqual([], self.rows("diff"))

    def test_mappings_that_are_read_in_novas_database(self) -> None:
        options = {"OS_API_DATABASE__CONNECTION": self.source}
        [row] = [row for row in self.rows("check", code=1, **options)
                 if row["outcome"] == "skipped"]
        self.assertEqual(
            ("cell", "[api_database] connection is set: they are read in that database"),
            (row["kind"], row["details"]))
        self.rows("copy", "--execute", code=1, **options)
        self.assertEqual([], self.rows("diff", **options))

    def test_dedicated_processors(self) -> None:
        self.change_nova("flavors", id=1, name="pinned", memory_mb=1, vcpus=1, swap=0,
                         flavorid="1")
        self.change_nova("flavor_extra_specs", flavor_id=1, key="hw:cpu_policy",
                         value="dedicated")
        self.rows("check")
        options = {"OS_QUOTA__RESOURCE_MAP": "ram=MEMORY_MB"}
        [row] = [row for row in self.rows("check", code=1, **options)
                 if row["outcome"] == "warning"]
        self.assertEqual("class:PCPU", row["name"])
        self.change_nova("flavor_extra_specs", sa.update, value="shared")
        self.rows("check", **options)
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     "root_provider_id) VALUES (1, 'u1', 'host', 0, 1)")
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "SELECT 1, id, 8, 0, 1, 8, 1, 1.0, 0, 8 FROM resource_classes "
                     "WHERE name = 'PCPU'")
        self.rows("check", code=1, **options)
