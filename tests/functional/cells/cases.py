"""Cells to test with: their mappings and databases, ours or nova's own."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import uuid
from typing import Any

import sqlalchemy as sa

from placement_core.cells import engines, mappings
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from tests import base, databases, nova_databases
from tests.http import base as http_base


class CellsTestCase(base.DatabaseTestCase):
    """A test on our database, with cells.

    :cvar nova: whether the mappings and the cells are in databases that nova made.
    :cvar timeout: how long cells are waited for, in seconds.
    :ivar template_source: what fills templates of URLs.
    """

    nova = False
    timeout = 5
    template_source = ""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(engines.SHARED.dispose)
        self.api_url = nova_databases.api(self.kind) if self.nova else ""
        self.cells = self.databases()

    def databases(self) -> CellDatabases:
        """Return what a service of this test would have."""
        return CellDatabases(http_base.configuration(self.database.settings.connection, {
            ("api_database", "connection"): self.api_url,
            ("cells", "timeout_seconds"): self.timeout,
            ("cells", "template_connection"): self.template_source, **self.options()}))

    def options(self) -> http_base.Options:
        """Return what else the service is configured with."""
        return {}

    def cell(self, name: str = "cell1", url: str | None = None, **fields: Any) -> Cell:
        """Map a cell, by default one of a database that is not there."""
        return mappings.create(
            self.ctx, self.cells, name=name,
            database_connection=url or f"sqlite:////nonexistent/{uuid.uuid4()}.sqlite", **fields)

    def nova_cell(self, name: str = "cell1") -> Cell:
        """Map a cell whose database nova made."""
        return self.cell(name, nova_databases.cell(self.kind, name))

    def insert(self, url: str, table: str, **values: Any) -> None:
        """Insert a row into a table as it is, not as we know it."""
        engine, tables = nova_databases.reflected(url, table)
        with engine.begin() as connection:
            connection.execute(sa.insert(tables[table]), values)
        engine.dispose()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table of mappings, as it is."""
        engine, tables = nova_databases.reflected(
            self.api_url or self.database.settings.connection, table)
        with engine.connect() as connection:
            found = connection.execute(sa.select(tables[table]).order_by(tables[table].c.id))
            return [dict(row._mapping) for row in found]


def bare(kind: str, name: str) -> str:
    """Return the URL of a database without any tables; an SQLite file is not there yet."""
    if kind == "sqlite":
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-bare-"))
        return f"sqlite:///{folder}/{name}.sqlite"
    server = databases.server_database(kind)
    database = f"{server.database}_{name}"
    databases.administer(
        server, f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    return server.set(database=database).render_as_string(hide_password=False)


def drop(url: str) -> None:
    """Remove what ``bare`` made."""
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        shutil.rmtree(pathlib.Path(made.database or "").parent)
        return
    engines.SHARED.dispose()
    databases.administer(
        databases.server_database(made.get_backend_name()),
        f"DROP DATABASE IF EXISTS {made.database}")
