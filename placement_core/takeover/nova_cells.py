"""nova's cells as a source: cell mappings, instance mappings and server groups.

They are what counting instances and the members of server groups needs. What only nova's own
scheduler needs is counted, and stays there.
Source: the schema of nova 34's API database; spec nova_quota §1 and §3.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.cells import tables, urls
from placement_core.takeover.records import (
    BUILD_REQUEST,
    CELL,
    GROUP_POLICY,
    HOST_MAPPING,
    INSTANCE,
    SERVER_GROUP,
    Contents,
    Item,
    Outcome,
    Record,
    Surroundings,
)
from placement_core.takeover.spools import Spool

KINDS = (CELL, INSTANCE, SERVER_GROUP)

#: How many rows are read at a time.
_CHUNK = 1000

_CELLS = sa.table("cell_mappings", *map(sa.column, (
    "id", "uuid", "name", "transport_url", "database_connection", "disabled")))
_INSTANCES = sa.table("instance_mappings", *map(sa.column, (
    "id", "instance_uuid", "cell_id", "project_id", "user_id", "queued_for_delete")))
_GROUPS = sa.table("instance_groups", *map(sa.column, (
    "id", "uuid", "name", "project_id", "user_id")))
_MEMBERS = sa.table("instance_group_member", *map(sa.column, (
    "id", "group_id", "instance_uuid")))
_POLICIES = sa.table("instance_group_policy", *map(sa.column, ("id", "group_id", "policy")))

#: {table: (kind, why its rows stay in nova)}.
_LEFT = {
    "host_mappings": (
        HOST_MAPPING, "which host is in which cell is read in the databases of the cells"),
    "build_requests": (
        BUILD_REQUEST, "an instance that is being built gets its cell in nova; copy again then"),
}

_Row = Mapping[str, Any]


def read(connection: sa.Connection, surroundings: Surroundings) -> Contents:
    """Return what nova's API database has of cells and instances."""
    if not surroundings.keeps_cells:
        return Contents([], list(_leave_in_place(connection)))
    cell_rows = [dict(row) for row in connection.execute(
        sa.select(_CELLS).order_by(_CELLS.c.id)).mappings()]
    cells = settle_cells(cell_rows, surroundings)
    instances, groups = Spool(INSTANCE), Spool(SERVER_GROUP)
    notes = InstanceNotes(
        {row["id"]: row["uuid"] for row in cell_rows}, surroundings.required_fields)
    for rows in _read_chunks(connection, _INSTANCES):
        instances.add(notes.settle(rows))
    for rows in _read_chunks(connection, _GROUPS):
        groups.add((record, "") for record in settle_groups(rows, _read_members(
            connection, rows[0]["id"], rows[-1]["id"])))
    return Contents(
        cells.records, [*cells.left, *notes.list_items(), *_count_left(connection)],
        [instances, groups])


def settle_cells(rows: Sequence[_Row], surroundings: Surroundings) -> Contents:
    """Return what the rows of cell mappings mean here. Pure.

    URLs stay as they are: templates are filled by whoever reads them.
    """
    records, left = [], []
    for row in rows:
        name, connection = row["name"] or "", row["database_connection"] or ""
        records.append(Record(CELL, row["uuid"], name, {
            "name": name, "database_connection": connection,
            "transport_url": row["transport_url"] or "", "disabled": bool(row["disabled"])}))
        warning = _find_warning(connection, surroundings)
        if warning:
            left.append(Item(CELL, row["uuid"], name, Outcome.WARNING, warning))
    return Contents(records, left)


def _find_warning(connection: str, surroundings: Surroundings) -> str:
    """Say what people should know about the URL of a cell's database; "": nothing."""
    if not connection:
        return ("it has no database_connection: it will be missing in each answer, until "
                "`placement-core cells set` gives it one")
    if urls.has_fields(connection) and not surroundings.fills_templates:
        return ("its database_connection is a template, and is filled from our own connection: "
                "set [cells] template_connection to that of nova's [database]")
    return ""


class InstanceNotes:
    """What there is to know about instance mappings, as far as they were read."""

    def __init__(
        self, cell_uuids: Mapping[int, str], required_fields: Collection[str] = ()
    ) -> None:
        """Initialize it.

        :param cell_uuids: {nova's id of a cell: its uuid}.
        :param required_fields: those without which no mapping is copied.
        """
        self._cell_uuids = cell_uuids
        self._fields_to_fill = [
            name for name in ("user_id", "queued_for_delete") if name not in required_fields]
        self._counts: dict[tuple[Outcome, str], int] = collections.Counter()

    def settle(self, rows: Sequence[_Row]) -> Iterator[tuple[Record, str]]:
        """Yield what rows mean, each with why it cannot be copied, or ""."""
        for row in rows:
            if row["project_id"] == tables.MARKER_PROJECT:
                self._count(Outcome.SKIPPED, "nova marks with it how far a migration has come")
                continue
            for name in self._fields_to_fill:
                if row[name] is None:
                    self._count(Outcome.WARNING, f"they have no {name}: `placement-core db "
                                "online-data-migrations` reads it in their cells")
            cell_id = row["cell_id"]
            flag = row["queued_for_delete"]
            yield Record(INSTANCE, row["instance_uuid"], "", {
                "project_id": row["project_id"], "user_id": row["user_id"],
                "cell": self._cell_uuids.get(cell_id),
                "queued_for_delete": None if flag is None else bool(flag),
            }), ("" if cell_id is None or cell_id in self._cell_uuids
                 else f"its cell {cell_id} is not there")

    def list_items(self) -> list[Item]:
        """Return an item for each thing to know, with the number of rows."""
        return [Item(INSTANCE, "", "", outcome, reason, count=count)
                for (outcome, reason), count in self._counts.items()]

    def _count(self, outcome: Outcome, reason: str) -> None:
        self._counts[outcome, reason] += 1


def settle_groups(
    rows: Sequence[_Row], members: Mapping[int, set[str]]
) -> Iterator[Record]:
    """Yield what rows of server groups mean here. Pure.

    :param members: {nova's id of a group: uuids of instances, deleted ones too}.
    """
    for row in rows:
        name = row["name"] or ""
        yield Record(SERVER_GROUP, row["uuid"], name, {
            "name": name, "project_id": row["project_id"], "user_id": row["user_id"],
            "members": sorted(members.get(row["id"], ()))})


def _read_members(
    connection: sa.Connection, first: int, last: int
) -> Mapping[int, set[str]]:
    """Return the members of the groups with some ids; nova may have one twice."""
    members: dict[int, set[str]] = collections.defaultdict(set)
    for row in connection.execute(
            sa.select(_MEMBERS.c.group_id, _MEMBERS.c.instance_uuid)
            .where(_MEMBERS.c.group_id.between(first, last),
                   _MEMBERS.c.instance_uuid.is_not(None))):
        members[row.group_id].add(row.instance_uuid)
    return members


def _read_chunks(
    connection: sa.Connection, table: sa.TableClause
) -> Iterator[Sequence[_Row]]:
    """Yield the rows of a table, in the order of their ids."""
    after = 0
    while rows := connection.execute(
            sa.select(table).where(table.c.id > after).order_by(table.c.id)
            .limit(_CHUNK)).mappings().all():
        yield [dict(row) for row in rows]
        after = rows[-1]["id"]


def _count_left(connection: sa.Connection) -> Iterator[Item]:
    """Yield an item for each kind of rows that stays in nova."""
    for name, (kind, reason) in _LEFT.items():
        count = _count_rows(connection, sa.table(name))
        if count:
            yield Item(kind, "", "", Outcome.SKIPPED, reason, count=count)
    policies = {row.policy: row.groups for row in connection.execute(
        sa.select(_POLICIES.c.policy, sa.func.count().label("groups"))
        .group_by(_POLICIES.c.policy).order_by(_POLICIES.c.policy))}
    if policies:
        text = ", ".join(f"{count} {policy}" for policy, count in policies.items())
        yield Item(GROUP_POLICY, "", "", Outcome.SKIPPED,
                   f"nova's scheduler has them and their rules ({text})",
                   count=sum(policies.values()))


def _leave_in_place(connection: sa.Connection) -> Iterator[Item]:
    """Yield an item for each kind that is read where it is."""
    for kind, table in ((CELL, _CELLS), (INSTANCE, _INSTANCES), (SERVER_GROUP, _GROUPS)):
        count = _count_rows(connection, table)
        if count:
            yield Item(
                kind, "", "", Outcome.SKIPPED,
                "[api_database] connection is set: they are read in that database", count=count)
    yield from _count_left(connection)


def _count_rows(connection: sa.Connection, table: sa.TableClause) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
