"""A deployment of nova to count: its API database, cells, placement, and instances in them."""

from __future__ import annotations

import dataclasses
import pathlib
import uuid
from collections.abc import Mapping

import fixtures
import sqlalchemy as sa

from placement_core.cells import cell_tables, engines, tables
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from placement_core.testing.counting import Running
from tests import base, cell_databases
from tests.http import base as http


def empty(url: str) -> None:
    """Make a cell's tables where they are missing, and empty them."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    cell_tables.metadata.create_all(engine)
    with engine.begin() as connection:
        for table in cell_tables.metadata.sorted_tables:
            connection.execute(table.delete())


@dataclasses.dataclass(frozen=True)
class Cell:
    id: int
    uuid: str
    name: str
    url: str

    def execute(self, statement: sa.Executable, values: object = None) -> None:
        with cell_databases.open_engine(self.url).begin() as connection:
            connection.execute(statement, values)

    @property
    def path(self) -> pathlib.Path:
        return pathlib.Path(sa.make_url(self.url).database)


class NovaDeploymentTestCase(base.DatabaseTestCase):
    """A test of counting: one host with plenty of everything, and no cells yet.

    :cvar options: what drivers are configured with, {(group, option): value}.
    """

    options: Mapping[tuple[str, str], object] = {}

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(engines.SHARED.dispose)
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = factories.provider(self.ctx, inventory={
            name: InventoryValues(total=10**6) for name in
            ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LICENCE")})
        self.cells: list[Cell] = []

    def conf(self, **options: object):
        """Return options; ``quota__on_missing_cell="allow"`` is one of ``[quota]``."""
        given = {tuple(name.split("__")): value for name, value in options.items()}
        return http.configuration(
            self.database.settings.connection,
            {("cells", "timeout_seconds"): 10, **self.options, **given})

    def api(self, statement: sa.Executable, values: object = None) -> sa.CursorResult:
        """Execute a statement in the API database."""
        with self.database.writer.begin() as connection:
            return connection.execute(statement, values)

    def cell(self, name: str | None = None, *, url: str | None = None, **values: object) -> Cell:
        """Map a cell, by default with an empty database of its own."""
        number = len(self.cells)
        made = {"uuid": str(uuid.uuid4()), "name": name or f"cell{number}",
                "transport_url": "none:///", "disabled": False,
                "database_connection": url or cell_databases.empty(self.kind, number), **values}
        (id_,) = self.api(sa.insert(tables.cell_mappings), made).inserted_primary_key
        self.cells.append(Cell(id_, made["uuid"], made["name"], made["database_connection"]))
        return self.cells[-1]

    def map(
        self, instance_uuid: str, cell: Cell | None, *, project: str = "project",
        user: str | None = "user", gone: bool | None = False,
    ) -> None:
        """Write an instance mapping."""
        self.api(sa.insert(tables.instance_mappings), {
            "instance_uuid": instance_uuid, "cell_id": cell and cell.id, "project_id": project,
            "user_id": user, "queued_for_delete": gone})

    def put(
        self, instance_uuid: str, cell: Cell, *, project: str = "project", user: str = "user",
        vcpus: int = 1, memory_mb: int = 10, **values: object,
    ) -> None:
        """Write an instance into a cell."""
        cell.execute(sa.insert(cell_tables.instances), {
            "uuid": instance_uuid, "project_id": project, "user_id": user, "vcpus": vcpus,
            "memory_mb": memory_mb, "deleted": 0, "vm_state": "active", **values})

    def claim(
        self, consumer_uuid: str, amounts: Mapping[str, int], *, project: str = "project",
        user: str = "user", kind: str | None = None,
    ) -> None:
        """Let a consumer hold just this."""
        allocations.replace(self.ctx, [AllocationWrite(
            consumer_uuid, {self.host.uuid: amounts} if amounts else {}, project, user, kind)])

    def run_instance(self, instance: Running, cell: Cell, **mapping: object) -> None:
        """Map an instance, put it into its cell, and let it hold its allocation."""
        owner = {"project": instance.project_id, "user": instance.user_id}
        self.map(instance.uuid, cell, **{**owner, **mapping})
        self.put(instance.uuid, cell, **owner, vcpus=instance.amounts.get("VCPU", 0),
                 memory_mb=instance.amounts.get("MEMORY_MB", 0))
        self.claim(instance.uuid, instance.amounts, **owner)
