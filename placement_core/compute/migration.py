"""Migrate one compute node to a resource provider.

The lock of the provider's row serializes migrations: two concurrent runs create one provider.
What the node's record said when it was migrated is stored in ``migrated_nodes``. While that is
unchanged, nothing is written, so that nova's compute service, or an operator, may change the
inventories. If the record says something else of a resource class, its inventory is written
again. That of a class that the node has no more is removed, once nobody uses it. An existing
provider keeps the inventories that it has when its node is migrated for the first time.
Source: seed 001 (``_migrate_inventory``), requirement I6.
"""

from __future__ import annotations

import dataclasses
import json
import uuid as uuids
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from placement_core.db import Session, failures
from placement_core.db.metadata import utcnow
from placement_core.placement import (
    errors as placement_errors,
    inventories,
    locks,
    providers,
    resource_classes,
    tables as placement_tables,
)

#: What the record of a compute node said, as in ``Offer.facts``.
Facts = Mapping[str, Sequence[float | None]]

_migrated = tables.migrated_nodes
_providers = placement_tables.resource_providers
_allocations = placement_tables.allocations
_classes = placement_tables.resource_classes

_RECORDS = sa.select(
    _migrated.c.uuid, _migrated.c.cell_uuid, _migrated.c.node_id, _migrated.c.facts)
_RECORD = _RECORDS.where(_migrated.c.uuid == sa.bindparam("of_uuid"))
_EXISTING = (
    _RECORDS.join(_providers, _providers.c.uuid == _migrated.c.uuid)
    .where(_migrated.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
)
_USED = (
    sa.select(_providers.c.uuid, _classes.c.name)
    .select_from(
        _providers
        .join(_allocations, _allocations.c.resource_provider_id == _providers.c.id)
        .join(_classes, _classes.c.id == _allocations.c.resource_class_id))
    .where(_providers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .distinct()
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
class MigratedNode:
    """The compute node that was migrated to a resource provider."""

    uuid: str
    cell_uuid: str
    node_id: int
    facts: Facts

    def is_of(self, cell: Cell, node: NodeRow) -> bool:
        """Return whether it is this node."""
        return (self.cell_uuid, self.node_id) == (cell.uuid, node.id)


@db.retry_writes
def list_migrated(ctx: Context, uuids: Collection[str]) -> dict[str, MigratedNode]:
    """Return {uuid: migrated node} of the nodes whose providers exist."""
    if not uuids:
        return {}
    with db.read_once(ctx) as session:
        return {row.uuid: _make_record(row)
                for row in session.execute(_EXISTING, {"uuids": sorted(uuids)})}


@db.retry_writes
def list_used(
    ctx: Context, offers: Iterable[tuple[str | None, Offer]],
    migrated: Mapping[str, MigratedNode],
) -> dict[str, set[str]]:
    """Return {uuid: the resource classes that are used of it} of nodes that lost some.

    :param offers: (uuid, offer) of nodes. If none of them lost any, no statement is sent.
    """
    uuids = {uuid for uuid, offer in offers if uuid is not None
             and uuid in migrated and _list_lost(offer, migrated[uuid].facts)}
    used: dict[str, set[str]] = {uuid: set() for uuid in uuids}
    if uuids:
        with db.read_once(ctx) as session:
            for row in session.execute(_USED, {"uuids": sorted(uuids)}):
                used[row.uuid].add(row.name)
    return used


def is_due(
    migrated: MigratedNode | None, cell: Cell, node: NodeRow, offer: Offer,
    used: Collection[str] = (),
) -> bool:
    """Return whether a node is not migrated, or its record has changed since.

    :param used: the resource classes that are used of it: as long as they are, that it has them no
        more is no change.
    """
    if migrated is None or not migrated.is_of(cell, node):
        return True
    return _to_json(_merge_facts(offer, migrated.facts, used)) != _to_json(migrated.facts)


def migrate_inventory(
    ctx: Context, cells: CellDatabases, cell: Cell, node: NodeRow, offer: Offer
) -> str:
    """Make a node a resource provider with inventories; return its uuid.

    Missing custom resource classes are created first; the rest is one transaction. If the cell
    has a database of its own, a uuid that the node lacks is written there before; should the
    run end then, the next one continues from there.

    :raises errors.NotMigratable: the node cannot be one, for example because another node has
        its uuid.
    :raises core_errors.Unavailable: a database does not answer.
    """
    cell_ctx = cells.of(ctx, cell)
    if node.uuid is None and cell_ctx is not ctx:
        node = give_uuid(cell_ctx, cell, node)
    stale = None if node.uuid is None else _find_stale_owner(ctx, cells, cell, node)
    return _write(ctx, cell, node, offer, stale)


def give_uuid(ctx: Context, cell: Cell, node: NodeRow) -> NodeRow:
    """Give a node a uuid in its cell, unless it has one there; return the node with it.

    :param ctx: on the cell's database.
    :raises errors.NotMigratable: the database takes none, or the node was deleted.
    :raises core_errors.Unavailable: the database does not answer.
    """
    try:
        uuid = rows.give_uuid(ctx, node.id)
    except (db_exception.DBError, sa.exc.SQLAlchemyError) as error:
        if isinstance(failures.translate(error), core_errors.Unavailable):
            raise  # That passes: the transaction is repeated, or the database is away.
        raise errors.NotMigratable(
            node.title, cell.title, "it has no uuid, and its cell's database takes none"
        ) from None
    if uuid is None:
        raise errors.NotMigratable(node.title, cell.title, "it was deleted meanwhile")
    return dataclasses.replace(node, uuid=uuid)


@db.retry_writes
def _write(
    ctx: Context, cell: Cell, node: NodeRow, offer: Offer, stale: MigratedNode | None
) -> str:
    for name in offer.inventories:
        if resource_classes.is_custom_name(name):
            resource_classes.ensure(ctx, name)
    with db.write(ctx) as session:
        if node.uuid is None:
            node = give_uuid(ctx, cell, node)
        uuid = _require_uuid(cell, node)
        provider_id, is_new = _lock_or_create_provider(ctx, session, cell, node, uuid)
        row = session.execute(_RECORD, {"of_uuid": uuid}).first()
        migrated = None if row is None else _make_record(row)
        if migrated is not None and not (migrated.is_of(cell, node) or migrated == stale):
            raise errors.DuplicateComputeNode(
                node.title, cell.title, uuid, f"node number {migrated.node_id}",
                migrated.cell_uuid)
        before = None if is_new or migrated is None else migrated.facts
        used = _put_inventories(session, provider_id, offer, before)
        facts = _merge_facts(offer, before, used)
        _put_record(session, cell, node, uuid, facts, new=migrated is None)
    return uuid


def _put_inventories(
    session: Session, provider_id: int, offer: Offer, before: Facts | None
) -> Collection[str]:
    """Write the inventories of the classes whose facts have changed.

    :param before: the facts of the last migration; None: the node was not migrated before, or
        its provider is new.
    :returns: the classes that the node has no more, and that stay, because they are used.
    """
    ids = resource_classes.ids(session, {*offer.inventories, *(before or ())})
    present = inventories.read_class_ids(session, provider_id)
    try:
        if before is None:
            changed = {ids[name]: values for name, values in offer.inventories.items()
                       if ids[name] not in present}
            removed: set[int] = set()
        else:
            changed = {ids[name]: values for name, values in offer.inventories.items()
                       if list(offer.facts[name]) != list(before.get(name, ()))}
            removed = present & {
                ids[name] for name in _list_lost(offer, before) if name in ids}
    except KeyError:
        # A custom class was deleted after it had been ensured.
        raise db.TransactionConflict from None
    used = inventories.find_used_classes(session, provider_id, removed)
    removed -= {ids[name] for name in used if name in ids}
    if changed or removed:
        locks.raise_generation(session, provider_id)
        inventories.remove(session, provider_id, removed)
        inventories.put(session, provider_id, changed)
    return used


def _lock_or_create_provider(
    ctx: Context, session: Session, cell: Cell, node: NodeRow, uuid: str
) -> tuple[int, bool]:
    """Lock or create a node's provider; return its id, and whether it is new."""
    row = session.execute(_PROVIDER, {"of_uuid": uuid}).first()
    if row is not None:
        locks.lock_providers(session, {row.id: 0})
        return row.id, False
    same_name = session.execute(_NAMED, {"of_name": node.title}).scalar()
    if same_name == uuid:
        # Another process created it between the two statements.
        raise db.TransactionConflict
    if same_name is not None:
        raise errors.NotMigratable(
            node.title, cell.title,
            f"its name is that of resource provider {same_name}, and its uuid is {uuid}")
    try:
        return providers.create(ctx, name=node.title, uuid=uuid).id, True
    except placement_errors.DuplicateProvider:
        # Another process created it at the same moment: begin again.
        raise db.TransactionConflict from None
    except core_errors.Error as error:
        raise errors.NotMigratable(node.title, cell.title, str(error).rstrip(".")) from None


def _find_stale_owner(
    ctx: Context, cells: CellDatabases, cell: Cell, node: NodeRow
) -> MigratedNode | None:
    """Return another node that was migrated with this node's uuid and no longer exists.

    A node keeps its uuid when it moves to another cell, or registers again.

    :raises errors.DuplicateComputeNode: the other node still exists.
    :raises errors.NotMigratable: the cell of the other node does not answer.
    """
    with db.read_once(ctx) as session:
        row = session.execute(_RECORD, {"of_uuid": node.uuid}).first()
    if row is None:
        return None
    owner = _make_record(row)
    if owner.is_of(cell, node):
        return None
    owner_cells = [cell for cell in cells.cells(ctx) if cell.uuid == owner.cell_uuid]
    answers = cells.scatter_gather(
        ctx, lambda ctx, _cell: rows.find_by_id(ctx, owner.node_id), owner_cells)
    for missing in answers.missing:
        raise errors.NotMigratable(
            node.title, cell.title, f"a node of cell {missing.name} had its uuid {owner.uuid}, "
            f"and that cell is missing: {missing.reason}")
    for other in answers.answers.values():
        if other is not None and other.uuid == owner.uuid:
            raise errors.DuplicateComputeNode(
                node.title, cell.title, owner.uuid, other.title, owner_cells[0].title)
    return owner


def _put_record(
    session: Session, cell: Cell, node: NodeRow, uuid: str, facts: Facts, *, new: bool
) -> None:
    text = _to_json(facts)
    if new:
        session.execute(_INSERT, {
            "uuid": uuid, "cell_uuid": cell.uuid, "node_id": node.id, "facts": text,
            "migrated_at": utcnow()})
    else:
        session.execute(_UPDATE, {
            "of_uuid": uuid, "new_cell": cell.uuid, "new_node": node.id, "new_facts": text,
            "now": utcnow()})


def _list_lost(offer: Offer, before: Facts) -> Collection[str]:
    """Return the classes that a node has no more; what could not be parsed may still exist."""
    return before.keys() - offer.facts.keys() - offer.unclear


def _merge_facts(offer: Offer, before: Facts | None, used: Collection[str]) -> Facts:
    """Return the facts to store: the old ones, too, of what could not be parsed or is used.

    While they are stored, the next migration knows that there is something to remove.
    """
    lost = _list_lost(offer, before or {})
    return {**{name: fact for name, fact in (before or {}).items()
               if name in used or name not in lost}, **offer.facts}


def _to_json(facts: Facts) -> str:
    return json.dumps(facts, sort_keys=True)


def _require_uuid(cell: Cell, node: NodeRow) -> str:
    """Return the uuid of a node, if a provider can have it."""
    try:
        uuid = str(uuids.UUID(node.uuid or ""))
    except ValueError:
        uuid = ""
    if uuid != node.uuid:
        raise errors.NotMigratable(
            node.title, cell.title, f"{node.uuid!r} is not a uuid as providers have it")
    return uuid


def _make_record(row: sa.Row[Any]) -> MigratedNode:
    return MigratedNode(row.uuid, row.cell_uuid, row.node_id, json.loads(row.facts))
