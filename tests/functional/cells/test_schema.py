"""The tables of a cell's database: ours beside nova's, made where they are missing."""

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.cells import cell_tables, schema
from placement_core.db import sqlite_files
from tests import databases, nova_databases
from tests.functional.cells import cases


@databases.on_each_database
class TestSchema(cases.CellsTestCase):
    def tables_of(self, url):
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            found = sa.inspect(connection)
            return {name: {column["name"]: column for column in found.get_columns(name)}
                    for name in schema.TABLES if found.has_table(name)}

    def test_what_is_missing_is_made_once(self):
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        cell = self.cell("cell1", url)
        self.assertEqual(list(schema.TABLES), schema.sync(self.ctx, self.cells, cell))
        self.insert(url, "instances", uuid="a", deleted=0)
        before = self.tables_of(url)
        self.assertEqual([], schema.sync(self.ctx, self.cells, cell))
        self.assertEqual(repr(before), repr(self.tables_of(url)))
        checked = schema.check(self.ctx, self.cells, [cell])
        self.assertEqual({cell.uuid: list(schema.TABLES)}, checked.answers)

    def test_what_somebody_else_made_stays(self):
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        cell = self.cell("cell1", url)
        schema.sync(self.ctx, self.cells, cell)
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE services")
            connection.exec_driver_sql("DROP TABLE instances")
            connection.exec_driver_sql("CREATE TABLE instances (other INTEGER)")
        self.assertEqual(["services"], schema.sync(self.ctx, self.cells, cell))
        self.assertEqual(["other"], list(self.tables_of(url)["instances"]))

    def test_a_file_that_is_made_is_private(self):
        """It says which instances are whose."""
        if self.kind != "sqlite":
            self.skipTest("only SQLite has files here")
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        schema.sync(self.ctx, self.cells, self.cell("cell1", url))
        self.assertEqual([], sqlite_files.find_exposed(url))

    def test_a_file_that_cannot_be_made(self):
        error = self.assertRaises(
            errors.Unavailable, schema.sync, self.ctx, self.cells,
            self.cell("cell1", "sqlite:////nonexistent/x.sqlite"))
        self.assertEqual("/nonexistent/x.sqlite: No such file or directory", str(error))

    def test_in_our_own_database(self):
        url = self.database.settings.connection
        cell = self.cell("cell1", url)
        self.addCleanup(self.drop_tables, url)
        self.assertEqual(list(schema.TABLES), schema.sync(self.ctx, self.cells, cell))
        self.assertEqual(list(schema.TABLES), schema.list_present(self.ctx))

    def drop_tables(self, url):
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        cell_tables.metadata.drop_all(engine)

    def test_novas_own_have_our_columns(self):
        """Names, types and what may be null: what we write nova can read, and back."""
        cell = self.nova_cell()
        novas = self.tables_of(cell.database_connection)
        self.assertEqual([], schema.sync(self.ctx, self.cells, cell))
        for table in cell_tables.metadata.tables.values():
            for column in table.columns:
                found = novas[table.name][column.name]
                where = f"{table.name}.{column.name}"
                self.assertEqual(column.nullable, found["nullable"], where)
                self.assertIs(
                    column.type._type_affinity, found["type"]._type_affinity
                    if not self.is_boolean(column, found) else sa.Boolean, where)
                if isinstance(column.type, sa.String):
                    self.assertEqual(
                        getattr(column.type, "length", None) or 0,
                        0 if isinstance(column.type, sa.Text) else found["type"].length, where)

    def is_boolean(self, column, found):
        """MySQL keeps booleans as small integers."""
        return (self.kind == "mysql" and isinstance(column.type, sa.Boolean)
                and isinstance(found["type"], sa.types.Integer))

    def test_a_row_of_each_in_novas_own(self):
        """No column that nova has and we have not needs a value."""
        cell = self.nova_cell()
        ctx = self.cells.of(self.ctx, cell)
        rows = {
            "instances": {"uuid": "a" * 36, "project_id": "demo", "user_id": "alice",
                          "vcpus": 2, "memory_mb": 512},
            "services": {"host": "one", "binary": "nova-compute", "version": 60},
            "compute_nodes": {
                "uuid": "b" * 36, "host": "one", "hypervisor_hostname": "one", "vcpus": 4,
                "memory_mb": 4096, "local_gb": 10, "vcpus_used": 0, "memory_mb_used": 0,
                "local_gb_used": 0, "hypervisor_type": "QEMU", "hypervisor_version": 1,
                "cpu_info": "{}"},
        }
        for name, row in rows.items():
            table = cell_tables.metadata.tables[name]
            with db.write(ctx) as session:
                session.execute(sa.insert(table), row)
            with db.read(ctx) as session:
                (found,) = session.execute(sa.select(table)).mappings()
            self.assertEqual(row, {field: found[field] for field in row})
            self.assertEqual(0, found["deleted"])
            self.assertIsNotNone(found["created_at"])

    def test_a_bare_database_has_none(self):
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        cell = self.cell("cell1", url)
        checked = schema.check(self.ctx, self.cells, [cell])
        if self.kind == "sqlite":
            self.assertEqual([cell.uuid], [each.uuid for each in checked.missing])
        else:
            self.assertEqual({cell.uuid: []}, checked.answers)

    def test_nova_databases_are_novas(self):
        """The fixture made them, not we."""
        url = nova_databases.cell(self.kind)
        engine, tables = nova_databases.reflected(url, "instances", "alembic_version")
        self.addCleanup(engine.dispose)
        self.assertIn("launched_on", tables["instances"].c)
