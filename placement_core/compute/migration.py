"""One compute node becomes a resource provider: ``_migrate_inventory`` of the seed.

Who holds the provider's row decides: two runs at once make one provider. What the node
said when it was migrated is kept (``migrated_nodes``). While it says the same, nothing is
written, so that nova's compute service, or an operator, may change the inventories; a
class of which it says something else is written anew. An existing provider keeps the
inventories that it has when its node comes to it for the first time.
Source: seed 001, requirement I6.
"""

from __future__ import annotations

import dataclasses
import json
import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors as core_errors
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.compute import errors, rows, tables
from placement_core.compute.offers import Offer
from placement_core.compute.records import NodeRow
from placement_core.context import Context
from placement_core.db import Session
from placement_core.db.metadata import utcnow
from placement_core.placement import (
    errors as placement_errors,
    inventories,
    locks,
    providers,
    resource_classes,
    tables as placement_tables,
)

#: What one compute node's facts look like when they were written down.
Facts = Mapping[str, Sequence[float | None]]

_migrated = tables.migrated_nodes
_providers = placement_tables.resource_providers

_RECORDS = sa.select(
    _migrated.c.uuid, _migrated.c.cell_uuid, _migrated.c.node_id, _migrated.c.facts)
_RECORD = _RECORDS.where(_migrated.c.uuid == sa.bindparam("of_uuid"))
_LIVING = (
    _RECORDS.join(_providers, _providers.c.uuid == _migrated.c.uuid)
    .where(_migrated.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
)
_INSERT = sa.insert(_migrated)
_UPDATE = (
    sa.update(_migrated).where(_migrated.c.uuid == sa.bindparam("of_uuid"))
    .values(cell_uuid=sa.bindparam("new_cell"), node_id=sa.bindparam("new_node"),
            facts=sa.bindparam("new_facts"), migrated_at=sa.bindparam("now"))
)
_PROVIDER = sa.select(_providers.c.id, _providers.c.uuid).where(
    _providers.c.uuid == sa.bindparam("of_uuid"))
_NAMED = sa.select(_providers.c.uuid).where(_providers.c.name == sa.bindparam("of_name"))


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Which node a provider was made of."""

    uuid: str
    cell_uuid: str
    node_id: int
    facts: Facts

    def is_of(self, cell: Cell, node: NodeRow) -> bool:
        """Say whether it is this node."""
        return (self.cell_uuid, self.node_id) == (cell.uuid, node.id)


@db.retry_writes
def records(ctx: Context, wanted: Collection[str]) -> dict[str, Record]:
    """Return {uuid: record} of migrated nodes whose providers are there."""
    if not wanted:
        return {}
    with db.read_once(ctx) as session:
        return {row.uuid: _record(row)
                for row in session.execute(_LIVING, {"uuids": sorted(wanted)})}


def is_due(record: Record | None, cell: Cell, node: NodeRow, offer: Offer) -> bool:
    """Say whether a node is not migrated, or says something else than it did then."""
    if record is None or not record.is_of(cell, node):
        return True
    return _text(_facts(offer, record.facts)) != _text(record.facts)


def migrate_inventory(
    ctx: Context, cells: CellDatabases, cell: Cell, node: NodeRow, offer: Offer
) -> str:
    """Make a node a resource provider with inventories; return its uuid.

    One transaction. Where the cell has a database of its own, a uuid that the node lacks
    is written there before: if that was all, the next run goes on from there.

    :raises errors.NotMigratable: it cannot be one; two nodes with one uuid, for example.
    :raises core_errors.Unavailable: a database does not answer.
    """
    beside = cells.of(ctx, cell)
    if node.uuid is None and beside is not ctx:
        node = _with_uuid(beside, cell, node)
    stale = None if node.uuid is None else _stale_owner(ctx, cells, cell, node)
    return _write(ctx, cell, node, offer, stale)


@db.retry_writes
def _write(
    ctx: Context, cell: Cell, node: NodeRow, offer: Offer, stale: Record | None
) -> str:
    for name in offer.inventories:
        if resource_classes.is_custom_name(name):
            resource_classes.ensure(ctx, name)
    with db.write(ctx) as session:
        if node.uuid is None:
            node = _with_uuid(ctx, cell, node)
        uuid = _usable(cell, node)
        provider_id, made = _provider(ctx, session, cell, node, uuid)
        row = session.execute(_RECORD, {"of_uuid": uuid}).first()
        known = None if row is None else _record(row)
        if known is not None and not (known.is_of(cell, node) or known == stale):
            raise errors.DuplicateComputeNode(
                node.title, cell.title, uuid, f"node number {known.node_id}", known.cell_uuid)
        before = None if made or known is None else known.facts
        _put(session, provider_id, offer, before)
        _note(session, cell, node, uuid, _facts(offer, before), new=known is None)
    return uuid


def _put(session: Session, provider_id: int, offer: Offer, before: Facts | None) -> None:
    """Write the inventories of classes of which the node says something new.

    :param before: what it said last; None: it comes for the first time.
    """
    ids = resource_classes.ids(session, {*offer.inventories, *(before or ())})
    present = inventories.present(session, provider_id)
    try:
        if before is None:
            wanted = {ids[name]: values for name, values in offer.inventories.items()
                      if ids[name] not in present}
            gone: set[int] = set()
        else:
            wanted = {ids[name]: values for name, values in offer.inventories.items()
                      if list(offer.facts[name]) != list(before.get(name, ()))}
            # What could not be read may still be there.
            gone = set() if offer.remarks else present & {
                ids[name] for name in before if name in ids and name not in offer.facts}
    except KeyError:
        # A custom class was removed since we made sure of it.
        raise db.TransactionConflict from None
    gone -= {id_ for id_ in gone if inventories.in_use(session, provider_id, [id_])}
    if wanted or gone:
        locks.raise_generation(session, provider_id)
        inventories.remove(session, provider_id, gone)
        inventories.put(session, provider_id, wanted)


def _provider(
    ctx: Context, session: Session, cell: Cell, node: NodeRow, uuid: str
) -> tuple[int, bool]:
    """Return the held provider of a node, made if it is missing; whether it was."""
    row = session.execute(_PROVIDER, {"of_uuid": uuid}).first()
    if row is not None:
        locks.hold(session, {row.id: 0})
        return row.id, False
    named = session.execute(_NAMED, {"of_name": node.title}).scalar()
    if named == uuid:
        # Made between the two questions.
        raise db.TransactionConflict
    if named is not None:
        raise errors.NotMigratable(
            node.title, cell.title,
            f"its name is that of resource provider {named}, and its uuid is {uuid}")
    try:
        return providers.create(ctx, name=node.title, uuid=uuid).id, True
    except placement_errors.DuplicateProvider:
        # Made at the same moment; what was begun here ends, and looks again.
        raise db.TransactionConflict from None
    except core_errors.Error as error:
        raise errors.NotMigratable(node.title, cell.title, str(error).rstrip(".")) from None


def _stale_owner(
    ctx: Context, cells: CellDatabases, cell: Cell, node: NodeRow
) -> Record | None:
    """Return the record of another node that had this one's uuid, and is no more.

    A node keeps its uuid when it is moved to another cell, or registers again.

    :raises errors.DuplicateComputeNode: that node is there.
    :raises errors.NotMigratable: its cell cannot be asked.
    """
    with db.read_once(ctx) as session:
        row = session.execute(_RECORD, {"of_uuid": node.uuid}).first()
    if row is None:
        return None
    known = _record(row)
    if known.is_of(cell, node):
        return None
    owner = [each for each in cells.cells(ctx) if each.uuid == known.cell_uuid]
    answers = cells.scatter_gather(ctx, lambda ctx, _cell: rows.by_id(ctx, known.node_id), owner)
    for missing in answers.missing:
        raise errors.NotMigratable(
            node.title, cell.title, f"a node of cell {missing.name} had its uuid {known.uuid}, "
            f"and that cell is missing: {missing.reason}")
    for other in answers.answers.values():
        if other is not None and other.uuid == known.uuid:
            raise errors.DuplicateComputeNode(
                node.title, cell.title, known.uuid, other.title, owner[0].title)
    return known


def _note(
    session: Session, cell: Cell, node: NodeRow, uuid: str, facts: Facts, *, new: bool
) -> None:
    text = _text(facts)
    if new:
        session.execute(_INSERT, {
            "uuid": uuid, "cell_uuid": cell.uuid, "node_id": node.id, "facts": text,
            "migrated_at": utcnow()})
    else:
        session.execute(_UPDATE, {
            "of_uuid": uuid, "new_cell": cell.uuid, "new_node": node.id, "new_facts": text,
            "now": utcnow()})


def _facts(offer: Offer, before: Facts | None) -> Facts:
    """Return what to remember; what could not be read this time stays as it was."""
    return {**(before or {}), **offer.facts} if offer.remarks else offer.facts


def _text(facts: Facts) -> str:
    return json.dumps(facts, sort_keys=True)


def _with_uuid(ctx: Context, cell: Cell, node: NodeRow) -> NodeRow:
    try:
        uuid = rows.give_uuid(ctx, node.id)
    except db_exception.DBError:
        raise errors.NotMigratable(
            node.title, cell.title, "it has no uuid, and its cell's database takes none"
        ) from None
    if uuid is None:
        raise errors.NotMigratable(node.title, cell.title, "it was deleted meanwhile")
    return dataclasses.replace(node, uuid=uuid)


def _usable(cell: Cell, node: NodeRow) -> str:
    """Return the uuid of a node as a provider has it."""
    try:
        uuid = str(uuids.UUID(node.uuid or ""))
    except ValueError:
        uuid = ""
    if uuid != node.uuid:
        raise errors.NotMigratable(
            node.title, cell.title, f"{node.uuid!r} is not a uuid as providers have it")
    return uuid


def _record(row: sa.Row[Any]) -> Record:
    return Record(row.uuid, row.cell_uuid, row.node_id, json.loads(row.facts))
