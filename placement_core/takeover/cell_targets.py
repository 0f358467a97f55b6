"""Where nova's cells, instance mappings and server groups go."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from placement_core.cells import copies, mappings
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.db import texts
from placement_core.takeover import records
from placement_core.takeover.records import Fields, Record
from placement_core.takeover.targets import SpoolTarget, Target, describe_refusal


@dataclasses.dataclass(frozen=True)
class Cells(Target):
    """Our cell mappings."""

    ctx: Context
    cells: CellDatabases
    kind = records.CELL

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why a cell cannot be ours: its URL is not allowed, or another one has it."""
        return describe_refusal(lambda: mappings.require_copyable(
            self.ctx, self.cells, _make_cell(record.id, record.fields),
            [_make_cell(id_, fields) for id_, fields in others.items()]))

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        """Return all of them."""
        return {cell.uuid: {
            "name": cell.name, "database_connection": cell.database_connection,
            "transport_url": cell.transport_url, "disabled": cell.disabled,
        } for cell in self.cells.cells(ctx)}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some."""
        for record in new:
            mappings.put_copy(ctx, self.cells, _make_cell(record.id, record.fields))

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Change fields of one."""
        cell = mappings.get(ctx, self.cells, id_)
        mappings.put_copy(ctx, self.cells, dataclasses.replace(cell, **changes))

    def delete(self, ctx: Context, id_: str) -> None:
        """Delete one that nothing is mapped to."""
        mappings.delete(ctx, self.cells, id_)


@dataclasses.dataclass(frozen=True)
class Instances(SpoolTarget):
    """Our instance mappings.

    :ivar required_fields: those that each must have.
    """

    required_fields: Collection[str] = ()
    kind = records.INSTANCE

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why a mapping cannot be ours."""
        missing = [name for name in self.required_fields if record.fields[name] is None]
        if missing and record.id not in others:
            return (f"it has no {' and no '.join(missing)}, and `db sync --contract` was run: "
                    "fill it in nova first")
        return _find_unstorable([
            record.id, record.fields["project_id"], record.fields["user_id"]])

    def read_some(self, ctx: Context, ids: Sequence[str]) -> Mapping[str, Fields]:
        """Return those of some instances."""
        return copies.read_instances(ctx, ids)

    def read_id_pages(self, ctx: Context) -> Iterator[Sequence[str]]:
        """Yield the uuids of all instances."""
        return copies.read_instance_pages(ctx)

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some."""
        copies.insert_instances(ctx, {record.id: record.fields for record in new})

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Change fields of one."""
        copies.update_instance(ctx, id_, changes)

    def delete(self, ctx: Context, id_: str) -> None:
        """Delete one."""
        copies.delete_instance(ctx, id_)


class ServerGroups(SpoolTarget):
    """Our server groups, with their members."""

    kind = records.SERVER_GROUP

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why a group cannot be ours."""
        fields = record.fields
        return _find_unstorable([
            record.id, fields["name"], fields["project_id"], fields["user_id"],
            *fields["members"]])

    def read_some(self, ctx: Context, ids: Sequence[str]) -> Mapping[str, Fields]:
        """Return some groups."""
        return copies.read_groups(ctx, ids)

    def read_id_pages(self, ctx: Context) -> Iterator[Sequence[str]]:
        """Yield the uuids of all groups."""
        return copies.read_group_pages(ctx)

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some."""
        copies.insert_groups(ctx, {record.id: record.fields for record in new})

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Change fields of one."""
        copies.update_group(ctx, id_, changes)

    def delete(self, ctx: Context, id_: str) -> None:
        """Delete one."""
        copies.delete_group(ctx, id_)


def keeps_cells(ctx: Context, cells: CellDatabases) -> bool:
    """Return whether cells and instances are in our own database."""
    return cells.api(ctx) is ctx


def list_required_fields(ctx: Context, cells: CellDatabases) -> Collection[str]:
    """Return the fields that our instance mappings must have, and those of a nova may lack."""
    return copies.list_required_fields(ctx) if keeps_cells(ctx, cells) else ()


def list_targets(ctx: Context, cells: CellDatabases) -> Sequence[Target]:
    """Return where cells go; nowhere, if they are read in nova's database."""
    return [Cells(ctx, cells)] if keeps_cells(ctx, cells) else []


def list_spool_targets(ctx: Context, cells: CellDatabases) -> Sequence[SpoolTarget]:
    """Return where instances and server groups go, likewise."""
    if not keeps_cells(ctx, cells):
        return []
    return [Instances(list_required_fields(ctx, cells)), ServerGroups()]


def _make_cell(uuid: str, fields: Fields) -> Cell:
    return Cell(id=0, uuid=uuid, **fields)


def _find_unstorable(values: Sequence[str | None]) -> str:
    if all(value is None or texts.is_storable(value) for value in values):
        return ""
    return "it has a text with NUL"
