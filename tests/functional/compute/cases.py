"""Cells with compute nodes, beside a service of ours."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db, services
from placement_core.cells import cell_tables, engines, mappings, schema
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.placement import inventories, providers
from placement_core.placement.records import InventoryValues
from tests import base, cell_databases, databases
from tests.http.base import configuration

_numbers = itertools.count(1)

#: A node of 16 processors, 64 GiB of memory and 1,000 GiB of disk.
NODE: Mapping[str, Any] = {
    "vcpus": 16, "memory_mb": 65536, "local_gb": 1000, "vcpus_used": 0, "memory_mb_used": 0,
    "local_gb_used": 0, "hypervisor_type": "QEMU", "hypervisor_version": 8002000,
    "cpu_info": "{}", "cpu_allocation_ratio": 16.0, "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.0, "deleted": 0}


class CellsTestCase(base.TestCase):
    """A test on an empty database of ours, and of cells.

    :cvar options: {(group, option): value}.
    """

    kind = "sqlite"
    options: Mapping[tuple[str, str], Any] = {}

    def setUp(self) -> None:
        super().setUp()
        self.url = databases.settings(self.kind).connection
        self.addCleanup(engines.SHARED.dispose)
        self._databases = itertools.count()
        self.parts = self.service()
        self.database = self.parts.database
        self.cells, self.nodes = self.parts.cells, self.parts.compute_nodes
        self.ctx = self.context()

    def service(self, **options: Any) -> services.Services:
        """Return the parts of a service; options of [compute]."""
        made = services.build(configuration(self.url, {
            **self.options, **{("compute", name): value for name, value in options.items()}}))
        self.addCleanup(made.database.dispose)
        return made

    def context(self) -> Context:
        return Context(self.database)

    def cell(self, name: str = "cell1", url: str | None = None) -> Cell:
        """Make a cell with a database of its own, or of ``url``."""
        made = mappings.create(
            self.ctx, self.cells, name=name,
            database_connection=url or cell_databases.empty(self.kind, next(self._databases)))
        schema.sync(self.ctx, self.cells, made)
        return made

    def own_cell(self) -> Cell:
        """Make a cell whose database is ours."""
        made = self.cell("own", self.url)
        # The next test gets this database again.
        self.addCleanup(self._drop_cell_tables)
        return made

    def in_cell(self, cell: Cell) -> Context:
        return self.cells.of(self.context(), cell)

    def execute(self, cell: Cell, statement: sa.Executable, values: Any = None) -> Any:
        with db.write(self.in_cell(cell)) as session:
            return session.execute(statement, values)

    def node(self, cell: Cell, **values: Any) -> int:
        """Add a node; return its id."""
        number = next(_numbers)
        row = {**NODE, "host": f"host-{number}", "hypervisor_hostname": f"node-{number}",
               "uuid": None, **values}
        return self.execute(cell, sa.insert(cell_tables.compute_nodes), row) \
            .inserted_primary_key[0]

    def change(self, cell: Cell, id_: int, **values: Any) -> None:
        table = cell_tables.compute_nodes
        self.execute(cell, sa.update(table).where(table.c.id == id_).values(**values))

    def row(self, cell: Cell, id_: int) -> Any:
        table = cell_tables.compute_nodes
        with db.read_once(self.in_cell(cell)) as session:
            return session.execute(sa.select(table).where(table.c.id == id_)).one()

    def conductor(self, cell: Cell, version: int | None = 10, **values: Any) -> None:
        number = next(_numbers)
        self.execute(cell, sa.insert(cell_tables.services), {
            "host": f"controller-{number}", "binary": "nova-conductor", "topic": "conductor",
            "version": version, "report_count": 1, "deleted": 0, "uuid": None, **values})

    def inventories(self, uuid: str) -> dict[str, InventoryValues]:
        found = inventories.list_(self.ctx, uuid).inventories
        return {each.resource_class: each.values for each in found}

    def generation(self, uuid: str) -> int:
        return providers.get(self.ctx, uuid).generation

    def _drop_cell_tables(self) -> None:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        cell_tables.metadata.drop_all(engine)
