"""Hosts as another service had them: entered in the freepool with their ids, and removed.

They may be in use, and there are no calls to the compute service: they are in its freepool
already. The child provider for slots that stands is adopted, also the other service's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement import lookups, providers, tables as placement_tables
from placement_core.placement.allocations import reserved_trees
from placement_core.reservations import tables
from placement_core.reservations.errors import HostExists, HostInUse
from placement_core.reservations.hosts import (
    host_capabilities,
    host_queries,
    registry,
    sizes,
)
from placement_core.reservations.leases import history
from placement_core.reservations.provisioning import slot_providers

_hosts, _shares = tables.computehosts, tables.computehost_allocations
_providers, _inventories, _allocations = (
    placement_tables.resource_providers, placement_tables.inventories,
    placement_tables.allocations)

#: What Blazar calls the child provider of a host, before the host's name.
_BLAZARS_PREFIX = "blazar_"
_DOWN = f"{registry.BY_MONITOR}down in Blazar"

_CHILDREN = sa.select(_providers.c.id, _providers.c.name).where(
    _providers.c.parent_provider_id == sa.bindparam("of_root"),
    _providers.c.name.in_(sa.bindparam("names", expanding=True)))
_IS_USED = sa.select(_allocations.c.id).where(
    _allocations.c.resource_provider_id == sa.bindparam("of_id")).limit(1)
_HELD = sa.select(_shares.c.reservation_id).where(
    _shares.c.computehost_id == sa.bindparam("of_id"),
    _shares.c.end_second > sa.bindparam("now")).limit(1)
_NAME = sa.select(_hosts.c.name).where(_hosts.c.id == sa.bindparam("of_id"))
_ADD = sa.insert(_hosts)
_CHANGE = sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
_REMOVE = sa.delete(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
#: PostgreSQL does not notice by itself that ids were given.
_RAISE_SEQUENCE = sa.select(sa.func.setval(
    sa.func.pg_get_serial_sequence(_hosts.name, "id"),
    sa.select(sa.func.max(_hosts.c.id)).scalar_subquery()))


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedHost:
    """A host to be entered.

    :ivar id: None: any.
    :ivar fields: columns of it, by name.
    """

    id: int | None
    name: str
    provider_uuid: str
    fields: Mapping[str, Any]
    capabilities: Mapping[str, str]


def insert(ctx: Context, copy: CopiedHost) -> None:
    """Enter a host in the freepool.

    :raises HostExists: its name, its provider, or its id, is there already.
    :raises ProviderNotFound: there is no such provider any more.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        revisions.increment(session, revisions.POOL_HOSTS)
        root = lookups.get_provider(session, copy.provider_uuid)
        registry.check_not_registered(session, root.id, copy.name)
        _check_id(session, copy.id)
        tree = registry.lock_tree(session, root.id)
        child_id = _find_child(session, root.id, copy) or providers.create(
            ctx, name=slot_providers.choose_name(copy.name, copy.provider_uuid),
            parent_uuid=copy.provider_uuid).id
        reserved_trees.mark(session, root.id, child_id)
        result = session.execute(_ADD, {
            **({} if copy.id is None else {"id": copy.id}),
            "name": copy.name, "provider_id": root.id, "provider_uuid": copy.provider_uuid,
            "reservation_provider_id": child_id, "promised": False,
            **sizes.read_tree_sizes(session, tree), **_build_columns(copy.fields)})
        if copy.id is not None and session.dialect == "postgresql":
            session.execute(_RAISE_SEQUENCE)
        host_capabilities.put(
            session, result.inserted_primary_key[0],  # type: ignore[index]  # never None
            copy.capabilities)


def _check_id(session: Session, host_id: int | None) -> None:
    if host_id is None:
        return
    name = session.execute(_NAME, {"of_id": host_id}).scalar()
    if name is not None:
        raise HostExists(f"There is a host {host_id} already: {name}.")


def change(
    ctx: Context, host_id: int, fields: Mapping[str, Any],
    capabilities: Mapping[str, str | None],
) -> None:
    """Change columns of a host, and set its capabilities; those that are None are removed."""
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        host_capabilities.put(session, host_id, capabilities)
        if fields:
            session.execute(_CHANGE.values(**_build_columns(fields)), {"of_id": host_id})


def remove(ctx: Context, host_id: int) -> None:
    """Remove a host from the freepool; a child provider that was adopted stays.

    :raises HostInUse: leases have it now or later, or the slots on it are in use.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        revisions.increment(session, revisions.POOL_HOSTS)
        row = host_queries.read_row(session, host_id)
        now = host_queries.to_second(row.read_at)
        if session.execute(_HELD, {"of_id": host_id, "now": now}).first():
            raise HostInUse(f"Leases hold host {row.name} now, or will later.")
        registry.lock_tree(session, row.provider_id)
        child = slot_providers.find_child(session, host_id)
        if child is not None and session.execute(_IS_USED, {"of_id": child.id}).first():
            raise HostInUse(f"Slots on host {row.name} are in use.")
        reserved_trees.unmark(session, row.provider_id, *([] if child is None else [child.id]))
        if child is not None and not child.name.startswith(_BLAZARS_PREFIX):
            providers.delete(ctx, child.uuid)
        host_capabilities.remove(session, host_id)
        history.store_host_name(session, host_id, row.name)
        session.execute(_REMOVE, {"of_id": host_id})


def _find_child(session: Session, root_id: int, copy: CopiedHost) -> int | None:
    """Return the child provider for slots that a host has; Blazar's before ours."""
    names = [f"{_BLAZARS_PREFIX}{copy.name}",
             slot_providers.choose_name(copy.name, copy.provider_uuid)]
    ids = {row.name: row.id for row in session.execute(
        _CHILDREN, {"of_root": root_id, "names": names})}
    return next((ids[name] for name in names if name in ids), None)


def _build_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of fields; the monitor puts a host back that is up again."""
    if "reservable" not in fields:
        return dict(fields)
    return {**fields, "down_reason": None if fields["reservable"] else _DOWN}
