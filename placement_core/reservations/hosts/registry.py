"""Registers hosts in the freepool, changes them and removes them.

Writers lock the pool's row first, then the provider rows of the host's tree in placement.
The bookable sizes of a host are those of its tree's inventories when it was registered or last
changed; ``sizes.refresh`` updates them when inventories change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.changes import revisions
from placement_core.compute.nodes import ComputeNodes
from placement_core.context import Context
from placement_core.db import Session, failures, texts
from placement_core.placement import (
    errors as placement_errors,
    locks,
    lookups,
    providers,
    tables as placement_tables,
)
from placement_core.placement.allocations import reserved_trees
from placement_core.reservations import tables
from placement_core.reservations.errors import (
    HostExists,
    HostInUse,
    InvalidLease,
    UnknownHost,
)
from placement_core.reservations.hosts import host_capabilities, host_queries, sizes
from placement_core.reservations.hosts.candidates import HostCandidate, HostCandidates
from placement_core.reservations.hosts.healing import Healing
from placement_core.reservations.leases import history
from placement_core.reservations.provisioning import slot_providers
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import Host
from placement_core.reservations.scheduling import occupancy

LOG = logging.getLogger(__name__)

#: Prefix of ``down_reason`` where the monitor took the host out of service, and only there.
BY_MONITOR = "monitor: "

_LONGEST_REASON = 255
_LONGEST_TRUST_ID = 36

_hosts, _shares = tables.computehosts, tables.computehost_allocations
_allocations = placement_tables.allocations

_KNOWN = sa.select(_hosts.c.id, _hosts.c.name, _hosts.c.provider_id).where(sa.or_(
    _hosts.c.provider_id == sa.bindparam("of_provider"),
    _hosts.c.name == sa.bindparam("of_name")))
_ADD = sa.insert(_hosts)
_CHANGE = sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
_REMOVE = sa.delete(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
_BOOKED = sa.select(_shares.c.reservation_id).where(
    _shares.c.computehost_id == sa.bindparam("of_id"),
    _shares.c.end_second > sa.bindparam("now")).limit(1)

_CONSUMERS = sa.select(sa.func.count(_allocations.c.consumer_id.distinct())).where(
    _allocations.c.resource_provider_id.in_(sa.bindparam("tree", expanding=True)))


class HostRegistry:
    """Registers and removes hosts of the freepool.

    :param nodes: the compute nodes of the cells, whose records describe hosts.
    """

    def __init__(self, provisioner: Provisioner, nodes: ComputeNodes, healing: Healing) -> None:
        self._provisioner = provisioner
        self._candidates = HostCandidates(nodes)
        self._healing = healing

    def register(
        self, ctx: Context, name: str, capabilities: Mapping[str, object],
        trust_id: str | None = None,
    ) -> Host:
        """Add a resource provider, or compute node, to the freepool as a host.

        Its bookable sizes are the capacities of the inventories of its tree.

        :param name: the name or the uuid of the provider, or of the node.
        :param capabilities: {property: text or number}; ``availability_zone`` and
            ``service_name`` become fields.
        :raises UnknownHost, AmbiguousHost: none has that name, or several have.
        :raises InvalidLease: it is nested, a node without inventories, or a capability
            cannot be stored.
        :raises HostExists, HostInUse: it is registered already, or has allocations.
        :raises errors.Unavailable: a cell that may have the node does not answer.
        """
        values = host_capabilities.check(capabilities)
        if trust_id is not None and not (
                len(trust_id) <= _LONGEST_TRUST_ID and texts.is_storable(trust_id)):
            raise InvalidLease(
                f"A trust_id has at most {_LONGEST_TRUST_ID} characters.", "trust_id")
        candidate = self._candidates.find(ctx, name)
        return _register(ctx, candidate, values, trust_id, self._provisioner)

    def change(
        self, ctx: Context, host_id: str, capabilities: Mapping[str, object], *,
        name: str | None = None, reservable: bool | None = None, reason: str | None = None,
    ) -> Host:
        """Set capabilities of a host, remove those that are None, take it out of service.

        Its bookable sizes are read from its inventories again.

        :param name: its present name; no other one is accepted.
        :param reservable: False: no new bookings; leases that have it are healed.
        :param reason: why it is not reservable.
        :raises HostNotFound, CapabilityInUse, InvalidLease:
        """
        if not capabilities and name is None and reservable is None and reason is None:
            raise InvalidLease("No data to update: there is nothing in the body.", "body")
        values = host_capabilities.check(capabilities)
        if reason is not None:
            _check_reason(reason)
        host, affects_leases = _change(
            ctx, host_queries.find_number(ctx, host_id), values, name, reservable, reason)
        if affects_leases:
            try:
                self._healing.heal(ctx)
            except core_errors.Unavailable as error:
                # The host has changed all the same; the next run of healing catches up.
                LOG.warning("host %s has changed; leases were not healed yet: %s",
                            host.name, error)
        return host

    def remove(self, ctx: Context, host_id: str) -> None:
        """Remove a host from the freepool.

        :raises HostNotFound:
        :raises HostInUse: leases have it now or later, or it has allocations.
        """
        _remove(ctx, host_queries.find_number(ctx, host_id), self._provisioner)


# Transactions ------------------------------------------------------------------------


@db.retry_writes
def _register(
    ctx: Context, candidate: HostCandidate, capabilities: Mapping[str, str | None],
    trust_id: str | None, provisioner: Provisioner,
) -> Host:
    fields, values = _split_fields(capabilities)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        revisions.increment(session, revisions.POOL_HOSTS)
        try:
            root = lookups.get_provider(session, candidate.provider_uuid)
        except placement_errors.ProviderNotFound:
            raise UnknownHost(candidate.name) from None
        check_not_registered(session, root.id, candidate.name)
        tree = lock_tree(session, root.id)
        _check_unused(session, tree, candidate.name)
        child = providers.create(
            ctx, name=slot_providers.choose_name(candidate.name, root.uuid),
            parent_uuid=root.uuid)
        reserved_trees.mark(session, root.id, child.id)
        result = session.execute(_ADD, {
            "name": candidate.name, "provider_id": root.id, "provider_uuid": root.uuid,
            "reservation_provider_id": child.id, "trust_id": trust_id,
            "reservable": True, "promised": False,
            **sizes.read_tree_sizes(session, tree),
            **candidate.fields, **fields,
        })
        host_id: int = result.inserted_primary_key[0]  # type: ignore[index]  # never None
        host_capabilities.put(session, host_id, values)
        [host] = host_queries.build_hosts(session, [host_queries.read_row(session, host_id)])
        provisioner.add_host(ctx, host)
        return host


@db.retry_writes
def _change(
    ctx: Context, host_id: int, capabilities: Mapping[str, str | None], name: str | None,
    reservable: bool | None, reason: str | None,
) -> tuple[Host, bool]:
    """Return the host after the change, and whether leases may lose or get shares by it."""
    fields, values = _split_fields(capabilities)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        row = host_queries.read_row(session, host_id)
        if name is not None and name != row.name:
            raise InvalidLease(
                f"The host is called {row.name}, as its compute node or resource provider is; "
                "its name cannot be changed.", "name")
        present = host_capabilities.read(session, host_id) if values else {}
        present |= {field: getattr(row, field) for field in fields
                    if getattr(row, field) is not None}
        host_capabilities.require_unused(
            session, host_id,
            [key for key, value in capabilities.items() if present.get(key, value) != value],
            host_queries.to_second(row.read_at))
        host_capabilities.put(session, host_id, values)
        tree = sizes.find_tree(session, row.provider_id)
        session.execute(_CHANGE.values(
            **fields, **_build_service_columns(row, reservable, reason),
            **sizes.read_tree_sizes(session, tree),
        ), {"of_id": host_id})
        changed = host_queries.read_row(session, host_id)
        affects_leases = any(getattr(row, column) != getattr(changed, column)
                             for column in ("reservable", *sizes.COLUMNS.values()))
        return host_queries.build_hosts(session, [changed])[0], affects_leases


@db.retry_writes
def _remove(ctx: Context, host_id: int, provisioner: Provisioner) -> None:
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        revisions.increment(session, revisions.POOL_HOSTS)
        row = host_queries.read_row(session, host_id)
        [host] = host_queries.build_hosts(session, [row])
        now = host_queries.to_second(row.read_at)
        if session.execute(_BOOKED, {"of_id": host_id, "now": now}).first():
            raise HostInUse(f"Leases hold host {host.name} now, or will later.")
        if any(occupied.host_id == host_id
               for occupied in occupancy.find(session, cleaning_seconds=0)):
            raise HostInUse(f"A lease that holds host {host.name} has yet to be ended.")
        _check_unused(session, lock_tree(session, row.provider_id), host.name)
        child = slot_providers.find_child(session, host_id)
        reserved_trees.unmark(session, row.provider_id, *([] if child is None else [child.id]))
        if child is not None:
            providers.delete(ctx, child.uuid)
        provisioner.remove_host(ctx, host)
        host_capabilities.remove(session, host_id)
        history.store_host_name(session, host_id, host.name)
        session.execute(_REMOVE, {"of_id": host_id})


def _split_fields(
    capabilities: Mapping[str, str | None]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Split capabilities into fields of the host and the rest."""
    fields = {name: capabilities[name]
              for name in host_capabilities.FIELDS if name in capabilities}
    return fields, {name: value for name, value in capabilities.items() if name not in fields}


def _build_service_columns(
    row: sa.Row[Any], reservable: bool | None, reason: str | None
) -> Mapping[str, object]:
    """Return the new values of the columns that say whether a host is in service."""
    in_service = bool(row.reservable) if reservable is None else reservable
    if in_service:
        if reason is not None:
            raise InvalidLease("A host that is in service needs no reason for that.", "reason")
        return {"reservable": True, "down_reason": None}
    if reservable is None and reason is None:
        return {}
    # A host that an operator took out of service stays out until an operator puts it back, even
    # if the monitor had taken it out before.
    return {"reservable": False, "down_reason": reason or "taken out of service"}


def _check_reason(reason: str) -> None:
    if len(reason) > _LONGEST_REASON or not texts.is_storable(reason):
        raise InvalidLease(
            f"A reason has at most {_LONGEST_REASON} characters, and no NUL.", "reason")
    if reason.startswith(BY_MONITOR):
        raise InvalidLease(
            f"Reasons that begin with {BY_MONITOR!r} are those of the monitor.", "reason")


def check_not_registered(session: Session, provider_id: int, name: str) -> None:
    """Check that neither a name nor a provider is that of a host.

    :raises HostExists:
    """
    for row in session.execute(_KNOWN, {"of_provider": provider_id, "of_name": name}):
        if row.provider_id == provider_id:
            raise HostExists(f"{name} is in the freepool already, as host {row.id}.")
        if row.name == name:
            raise HostExists(f"Host {row.id} of the freepool is called {name} already.")


def lock_tree(session: Session, root_id: int) -> set[int]:
    """Lock the rows of a tree of providers; return their ids."""
    tree = sizes.find_tree(session, root_id)
    locks.lock_providers(session, dict.fromkeys(tree, 0))
    # No provider can join or leave the tree now, because that locks a row of it. If one did so
    # before these locks, the transaction starts again.
    if sizes.find_tree(session, root_id) != tree:
        raise failures.TransactionConflict
    return tree


def _check_unused(session: Session, tree: Iterable[int], name: str) -> None:
    consumers = session.execute(_CONSUMERS, {"tree": sorted(tree)}).scalar_one()
    if consumers:
        consumers_have = "1 consumer has" if consumers == 1 else f"{consumers} consumers have"
        raise HostInUse(f"{consumers_have} allocations on {name}, or on what is nested in it.")
