"""The provider of a host's slots: a child of the host's root, in placement.

It is made when the host enters the freepool, and stays as long as the host does: clients cannot
delete it (``reserved_trees``). Earlier versions let them do so, and nova did when its service was
deleted. What they lost is replaced when slots are written next, or by the online migration that
protects the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, lists
from placement_core.placement import errors, locks, providers, tables as placement_tables
from placement_core.placement.allocations import reserved_trees
from placement_core.reservations import tables
from placement_core.reservations.records import PoolHost

LOG = logging.getLogger(__name__)

_LONGEST_NAME = 200

_hosts, _providers, _pooled = (
    tables.computehosts, placement_tables.resource_providers, placement_tables.pooled_trees)

#: An id that was deleted can be that of a provider elsewhere by now.
_IS_CHILD = ((_providers.c.id == _hosts.c.reservation_provider_id)
             & (_providers.c.root_provider_id == _hosts.c.provider_id))
_EXISTING = (
    sa.select(_hosts.c.id, _providers.c.id.label("child_id")).join(_providers, _IS_CHILD)
    .where(lists.among_many(_hosts.c.id, "ids")))
_CHILD = (
    sa.select(_providers.c.id, _providers.c.uuid, _providers.c.name).join(_hosts, _IS_CHILD)
    .where(_hosts.c.id == sa.bindparam("of_host")))
_UUID = sa.select(_hosts.c.provider_uuid).where(_hosts.c.id == sa.bindparam("of_host"))
_REPLACE = sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_host")).values(
    reservation_provider_id=sa.bindparam("new_child"))
_UNPROTECTED = (
    sa.select(_hosts.c.id, _hosts.c.name, _hosts.c.provider_id, _hosts.c.reservation_provider_id)
    .where(~sa.exists().where(_IS_CHILD, _pooled.c.root_provider_id == _providers.c.id))
    .order_by(_hosts.c.id))
_IS_UNPROTECTED = _UNPROTECTED.where(_hosts.c.id == sa.bindparam("of_host"))
_COUNT = sa.select(sa.func.count()).select_from(_UNPROTECTED.order_by(None).subquery())


def choose_name(host_name: str, provider_uuid: str) -> str:
    """Return what the provider of a host's slots is called.

    :param provider_uuid: that of the host's root.
    """
    name = f"reservation_{host_name}"
    return name if len(name) <= _LONGEST_NAME else f"reservation_{provider_uuid}"


def find(session: Session, hosts: Iterable[PoolHost]) -> dict[int, int]:
    """Return the providers of slots that exist: {host id: provider id}."""
    ids = sorted({host.id for host in hosts})
    return {row.id: row.child_id for row in session.execute(_EXISTING, {"ids": ids})}


def find_child(session: Session, host_id: int) -> sa.Row[Any] | None:
    """Return the provider of a host's slots: its id, uuid and name; None: it was deleted."""
    return session.execute(_CHILD, {"of_host": host_id}).first()


def replace(ctx: Context, session: Session, host: PoolHost) -> int:
    """Make the provider of a host's slots anew, because it was deleted; return its id.

    The host's root must be locked.

    :raises DuplicateProvider: another provider has its name.
    :raises TransactionConflict: another transaction was first.
    """
    if find(session, [host]):
        raise TransactionConflict
    uuid = session.execute(_UUID, {"of_host": host.id}).scalar_one()
    child = providers.create(ctx, name=choose_name(host.name, uuid), parent_uuid=uuid)
    session.execute(_REPLACE, {"of_host": host.id, "new_child": child.id})
    reserved_trees.protect(session, child.id)
    LOG.warning("the provider %s of the slots on host %s was deleted, and is made anew",
                child.name, host.name)
    return child.id


def protect(ctx: Context, max_count: int) -> tuple[int, int]:
    """Protect the providers of slots that earlier versions made (an online migration).

    Those that were deleted are made anew.

    :returns: how many were found, and how many of them are protected now.
    """
    results: list[bool] = []
    for host in _read_unprotected(ctx):
        if sum(results) == max_count:
            break
        results.append(_try_protect(ctx, host))
    return len(results), sum(results)


@db.retry_writes
def count_unprotected(ctx: Context) -> int:
    """Return how many hosts have a provider of slots that is not protected, or none."""
    with db.read_once(ctx) as session:
        count: int = session.execute(_COUNT).scalar_one()
        return count


@db.retry_writes
def _read_unprotected(ctx: Context) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(_UNPROTECTED).all()


def _try_protect(ctx: Context, host: sa.Row[Any]) -> bool:
    try:
        return _protect(ctx, host.id)
    except errors.DuplicateProvider as error:
        LOG.warning("host %s has no provider of slots, and none can be made: %s",
                    host.name, error)
        return False


@db.retry_writes
def _protect(ctx: Context, host_id: int) -> bool:
    with db.write(ctx) as session:
        row = session.execute(_IS_UNPROTECTED, {"of_host": host_id}).first()
        if row is None:
            return False  # it was protected, or the host removed, by another process
        host = PoolHost(row.id, row.name, row.provider_id)
        child_id = find(session, [host]).get(host.id)
        locks.lock_providers(session, dict.fromkeys(
            [host.root_id] if child_id is None else [host.root_id, child_id], 0))
        if session.execute(_IS_UNPROTECTED, {"of_host": host_id}).first() != row:
            raise TransactionConflict
        if child_id is None:
            replace(ctx, session, host)
        else:
            reserved_trees.protect(session, child_id)
    return True
