"""The hosts of the freepool, and the properties that they are chosen by.

Whoever changes a host takes the pool's row first, then the host's tree in placement.
What can be promised of a host is what the inventories of its tree had when it came in,
or was changed last; ``refresh`` makes it follow them.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.changes import revisions
from placement_core.compute import errors as compute_errors
from placement_core.compute.nodes import ComputeNodes
from placement_core.compute.records import ComputeNode, State
from placement_core.context import Context
from placement_core.db import Session, clock, failures, texts
from placement_core.placement import (
    errors as placement_errors,
    fencing,
    locks,
    providers,
    rows,
    tables as placement_tables,
)
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import (
    capabilities as host_capabilities,
    history,
    occupancy,
    tables,
)
from placement_core.reservations.effects import Effects
from placement_core.reservations.errors import (
    AmbiguousHost,
    HostExists,
    HostInUse,
    HostNotFound,
    InvalidLease,
    PropertyNotFound,
    UnknownHost,
)
from placement_core.reservations.healing import Healing
from placement_core.reservations.records import R_DELETED, Host, HostAllocation, HostProperty

LOG = logging.getLogger(__name__)

#: Begins the reason of a host that the monitor took out of service, and no other one.
BY_MONITOR = "monitor: "

_LONGEST_NAME = _LONGEST_REASON = 255
_LONGEST_PROVIDER_NAME = 200
_LONGEST_TRUST_ID = 36
_LARGEST_ID = 2**31 - 1
_LARGEST_SIZE = 2**63 - 1

#: {resource class: the column of what can be promised of it}.
_SIZES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}

_hosts, _names = tables.computehosts, tables.resource_properties
_values = tables.computehost_extra_capabilities
_held, _reservations, _leases = (
    tables.computehost_allocations, tables.lease_reservations, tables.leases)
_providers, _inventories, _classes, _allocations = (
    placement_tables.resource_providers, placement_tables.inventories,
    placement_tables.resource_classes, placement_tables.allocations)

_FIELDS = tuple(
    field.name for field in dataclasses.fields(Host) if field.name != "capabilities")
#: With the present in each row, so that it costs no question of its own.
_ROWS = sa.select(
    *(_hosts.c[name] for name in _FIELDS), _hosts.c.provider_id,
    _hosts.c.reservation_provider_id, clock.now().label("asked_at"))
_BY_ID = _ROWS.where(_hosts.c.id == sa.bindparam("of_id"))
_BY_NAME = _ROWS.where(_hosts.c.name == sa.bindparam("of_name"))
_KNOWN = sa.select(_hosts.c.id, _hosts.c.name, _hosts.c.provider_id).where(sa.or_(
    _hosts.c.provider_id == sa.bindparam("of_provider"),
    _hosts.c.name == sa.bindparam("of_name")))
_CAPABILITIES = (
    sa.select(_values.c.computehost_id, _names.c.property_name, _values.c.capability_value)
    .join(_names, _names.c.id == _values.c.property_id)
    .where(_values.c.computehost_id >= sa.bindparam("first"),
           _values.c.computehost_id <= sa.bindparam("last"))
    .order_by(_names.c.property_name))

_ADD = sa.insert(_hosts)
_CHANGE = sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
_REMOVE = sa.delete(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
_PROMISED = sa.select(_held.c.reservation_id).where(
    _held.c.computehost_id == sa.bindparam("of_id"),
    _held.c.end_second > sa.bindparam("now")).limit(1)

_CALLED = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.parent_provider_id,
).where(sa.or_(_providers.c.uuid == sa.bindparam("said"),
               _providers.c.name == sa.bindparam("said")))
_UUID = sa.select(_providers.c.uuid).where(_providers.c.id == sa.bindparam("of_id"))
# Old databases have roots that do not say that they are their own root.
_TREE = sa.select(_providers.c.id).where(sa.or_(
    _providers.c.root_provider_id == sa.bindparam("root_id"),
    _providers.c.id == sa.bindparam("root_id")))
_CONSUMERS = sa.select(sa.func.count(_allocations.c.consumer_id.distinct())).where(
    _allocations.c.resource_provider_id.in_(sa.bindparam("tree", expanding=True)))

_of_sizes = _classes.c.name.in_(tuple(_SIZES))
_CAPACITIES = (
    sa.select(_classes.c.name, _inventories.c.capacity)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_of_sizes, _inventories.c.resource_provider_id.in_(
        sa.bindparam("tree", expanding=True))))
_ALL_SIZES = sa.select(
    _hosts.c.id, _hosts.c.name, *(_hosts.c[column] for column in _SIZES.values()))
_ALL_CAPACITIES = (
    sa.select(_hosts.c.id, _classes.c.name, _inventories.c.capacity)
    .join(_providers, _hosts.c.provider_id == sa.func.coalesce(
        _providers.c.root_provider_id, _providers.c.id))
    .join(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_of_sizes))

# What ended before it began was never in force.
_HELD = (
    sa.select(
        _held.c.computehost_id,
        sa.func.coalesce(_held.c.host_name, _hosts.c.name).label("name"),
        _reservations.c.lease_id,
        _held.c.reservation_id, _leases.c.project_id, _held.c.slots, _held.c.whole,
        _held.c.start_second, _held.c.end_second,
        (_reservations.c.status == R_DELETED).label("ended"))
    .join(_reservations, _reservations.c.id == _held.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .outerjoin(_hosts, _hosts.c.id == _held.c.computehost_id)
    .where(_held.c.start_second < _held.c.end_second)
    .order_by(_held.c.computehost_id, _held.c.start_second, _held.c.reservation_id))

_property_columns = (
    _names.c.id, _names.c.resource_type, _names.c.property_name, _names.c.private,
    _names.c.created_at, _names.c.updated_at)
_PROPERTIES = sa.select(*_property_columns).order_by(
    _names.c.property_name, _names.c.resource_type)
_PROPERTIES_WITH_VALUES = (
    sa.select(*_property_columns, _values.c.capability_value)
    .outerjoin(_values, _values.c.property_id == _names.c.id)
    .order_by(_names.c.property_name, _names.c.resource_type, _values.c.capability_value)
    .distinct())
_of_property = (_names.c.resource_type == host_capabilities.RESOURCE_TYPE,
                _names.c.property_name == sa.bindparam("of_name"))
_SET_PRIVATE = sa.update(_names).where(*_of_property).values(private=sa.bindparam("is_private"))
_PROPERTY = sa.select(*_property_columns).where(*_of_property)


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What shall become a host: a resource provider, and what its compute node says."""

    uuid: str
    name: str
    fields: Mapping[str, Any]


class PoolHosts:
    """Lets hosts into the freepool, and out of it.

    :param nodes: whose records say what a host is, where a cell has it.
    """

    def __init__(self, effects: Effects, nodes: ComputeNodes, healing: Healing) -> None:
        self._effects = effects
        self._nodes = nodes
        self._healing = healing

    def register(
        self, ctx: Context, name: str, capabilities: Mapping[str, object],
        trust_id: str | None = None,
    ) -> Host:
        """Let the resource provider, or compute node, of that name into the freepool.

        What can be promised of it is the capacity of the inventories of its tree.

        :param name: or the uuid.
        :param capabilities: {property: text or number}; ``availability_zone`` and
            ``service_name`` become fields.
        :raises UnknownHost, AmbiguousHost: none has that name, or several have.
        :raises InvalidLease: it is nested, a node without inventories, or a capability
            cannot be kept.
        :raises HostExists, HostInUse: it is there, or carries allocations.
        :raises errors.Unavailable: a cell does not answer that may have it.
        """
        given = host_capabilities.checked(capabilities)
        if trust_id is not None and not (
                len(trust_id) <= _LONGEST_TRUST_ID and texts.is_storable(trust_id)):
            raise InvalidLease(
                f"A trust_id has at most {_LONGEST_TRUST_ID} characters.", "trust_id")
        found = self._find(ctx, name)
        return _enter(ctx, found, given, trust_id, self._effects)

    def change(
        self, ctx: Context, host_id: str, capabilities: Mapping[str, object], *,
        name: str | None = None, reservable: bool | None = None, reason: str | None = None,
    ) -> Host:
        """Set capabilities of a host, remove those that are None, take it out of service.

        What can be promised of it follows its inventories.

        :param name: the one it has.
        :param reservable: False: no new promises; what is promised of it is healed.
        :param reason: why it is not reservable.
        :raises HostNotFound, CapabilityInUse, InvalidLease:
        """
        if not capabilities and name is None and reservable is None and reason is None:
            raise InvalidLease("No data to update: there is nothing in the body.", "body")
        given = host_capabilities.checked(capabilities)
        if reason is not None:
            _check_reason(reason)
        host, hurts = _change(ctx, _id(host_id), given, name, reservable, reason)
        if hurts:
            try:
                self._healing.heal(ctx)
            except core_errors.Unavailable as error:
                # The change is made; whoever heals next does it.
                LOG.warning("host %s has changed; leases were not healed yet: %s",
                            host.name, error)
        return host

    def remove(self, ctx: Context, host_id: str) -> None:
        """Let a host out of the freepool.

        :raises HostNotFound:
        :raises HostInUse: leases hold it now or later, or it carries allocations.
        """
        _leave(ctx, _id(host_id), self._effects)

    def _find(self, ctx: Context, name: str) -> _Found:
        """Return the one provider that is called so, or whose compute node is."""
        if not 0 < len(name) <= _LONGEST_NAME or not texts.is_storable(name):
            raise UnknownHost(name)
        called = _providers_called(ctx, name)
        listing = self._nodes.list_(ctx, named=name)
        nodes = ([node for node in listing.nodes if node.hypervisor_hostname == name]
                 or [node for node in listing.nodes if node.host == name])
        for node in nodes:
            _require_inventories(node, name)
        of_uuid: dict[str, ComputeNode | None] = {row.uuid: None for row in called}
        of_uuid |= {node.uuid: node for node in nodes if node.uuid is not None}
        if len(of_uuid) > 1:
            raise AmbiguousHost(name, sorted(of_uuid))
        if not of_uuid:
            if listing.missing:
                raise compute_errors.CellsMissing([each.name for each in listing.missing])
            raise UnknownHost(name)
        [(uuid, known)] = of_uuid.items()
        for row in called:
            if row.parent_provider_id is not None:
                raise InvalidLease(
                    f"{name} is nested in another resource provider: a host is the root of "
                    "its tree.", "name")
        if known is None:
            known = self._node(ctx, uuid)
        if known is None:
            return _Found(uuid, called[0].name or uuid, {})
        _require_inventories(known, name)
        return _Found(uuid, known.hypervisor_hostname or known.host or uuid, {
            "hypervisor_type": known.hypervisor_type,
            "hypervisor_version": known.hypervisor_version,
            "cpu_info": self._nodes.cpu_info(ctx, known),
            "service_name": known.host,
        })

    def _node(self, ctx: Context, uuid: str) -> ComputeNode | None:
        try:
            return self._nodes.get(ctx, uuid)
        except compute_errors.ComputeNodeNotFound:
            return None


def get(ctx: Context, host_id: str) -> Host:
    """Return a host, by its id.

    :raises HostNotFound:
    """
    return _read_one(ctx, _BY_ID, {"of_id": _id(host_id)}, host_id)


def find(ctx: Context, said: str) -> Host:
    """Return a host, by its name or its id; a name comes first.

    :raises HostNotFound:
    """
    if texts.is_storable(said):
        try:
            return _read_one(ctx, _BY_NAME, {"of_name": said}, said)
        except HostNotFound:
            pass
    return get(ctx, said)


@db.retry_writes
def page(ctx: Context, *, after: int | None = None, limit: int | None = None) -> list[Host]:
    """Return hosts, in the order of ids.

    :param after: the id of the last one of the page before.
    """
    with db.read(ctx) as session:
        return _page(session, after, limit)[0]


@db.retry_writes
def allocations(
    ctx: Context, *, host_id: str | None = None, lease_id: str | None = None,
    reservation_id: str | None = None,
) -> tuple[Sequence[Host], Sequence[HostAllocation]]:
    """Return what reservations hold of hosts: what ends in the future, unless one is named.

    :returns: the hosts, also those of which nothing is held; and what is held of them.
    :raises HostNotFound:
    """
    with db.read(ctx) as session:
        if host_id is None:
            hosts, asked_at = _page(session, None, None)
        else:
            row = _row(session, _id(host_id))
            hosts, asked_at = [_with_capabilities(session, [row])[0]], row.asked_at
        if not all(texts.is_storable(said) for said in (lease_id, reservation_id) if said):
            return hosts, []
        statement, parameters = _HELD, dict[str, Any]()
        if host_id is not None:
            statement = statement.where(_held.c.computehost_id == sa.bindparam("of_host"))
            parameters["of_host"] = hosts[0].id
        if lease_id is not None:
            statement = statement.where(_reservations.c.lease_id == sa.bindparam("of_lease"))
            parameters["of_lease"] = lease_id
        if reservation_id is not None:
            statement = statement.where(
                _held.c.reservation_id == sa.bindparam("of_reservation"))
            parameters["of_reservation"] = reservation_id
        if lease_id is None and reservation_id is None:
            if asked_at is None:
                return [], []
            statement = statement.where(_held.c.end_second > sa.bindparam("now"))
            parameters["now"] = _second(asked_at)
        found = session.execute(statement, parameters).all()
    return hosts, _allocations_of(found)


@db.retry_writes
def properties(
    ctx: Context, *, detail: bool = False, private: bool = False
) -> list[HostProperty]:
    """Return the names of properties.

    :param detail: with the values that hosts have.
    :param private: also the private ones.
    """
    statement = _PROPERTIES_WITH_VALUES if detail else _PROPERTIES
    if not private:
        statement = statement.where(sa.not_(_names.c.private))
    with db.read_once(ctx) as session:
        found = session.execute(statement).all()
    made: dict[str, tuple[sa.Row[Any], list[str]]] = {}
    for row in found:
        values = made.setdefault(row.id, (row, []))[1]
        if detail and row.capability_value is not None:
            values.append(row.capability_value)
    return [_property(row, values if detail else None) for row, values in made.values()]


@db.retry_writes
def change_property(ctx: Context, name: str, *, private: bool) -> HostProperty:
    """Make a property private, or public.

    :raises PropertyNotFound:
    """
    if not texts.is_storable(name):
        raise PropertyNotFound("No host ever had such a property.")
    with db.write(ctx) as session:
        session.execute(_SET_PRIVATE, {"of_name": name, "is_private": private})
        row = session.execute(_PROPERTY, {"of_name": name}).first()
        if row is None:
            raise PropertyNotFound(f"No host ever had a property {name}.")
        return _property(row, None)


@db.retry_writes
def refresh(ctx: Context) -> list[str]:
    """Make what can be promised of hosts follow their inventories.

    What is promised already may then be more than there is: that is for healing.

    :returns: the names of the hosts that have other sizes now.
    """
    with db.read(ctx) as session:
        if not _outdated(session):
            return []
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.POOL)
        outdated = _outdated(session)
        for host, sizes in outdated.items():
            session.execute(_CHANGE.values(**sizes), {"of_id": host.id})
    for host, sizes in outdated.items():
        LOG.warning("the inventories of host %s have changed; it can be promised %s", host.name,
                    ", ".join(f"{column} {amount}" for column, amount in sizes.items()))
    return [host.name for host in outdated]


# Entering, changing, leaving ---------------------------------------------------------


@db.retry_writes
def _enter(
    ctx: Context, found: _Found, given: Mapping[str, str | None], trust_id: str | None,
    effects: Effects,
) -> Host:
    fields, values = _parted(given)
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.POOL)
        revisions.raise_(session, revisions.POOL_HOSTS)
        try:
            root = rows.by_uuid(session, found.uuid)
        except placement_errors.ProviderNotFound:
            raise UnknownHost(found.name) from None
        _refuse_known(session, root.id, found.name)
        tree = _hold_tree(session, root.id)
        _refuse_consumers(session, tree, found.name)
        fencing.mark(session, root.id)
        child = providers.create(ctx, name=_child_name(found), parent_uuid=root.uuid)
        result = session.execute(_ADD, {
            "name": found.name, "provider_id": root.id, "provider_uuid": root.uuid,
            "reservation_provider_id": child.id, "trust_id": trust_id,
            "reservable": True, "promised": False,
            **_sizes(session.execute(_CAPACITIES, {"tree": sorted(tree)})),
            **found.fields, **fields,
        })
        host_id: int = result.inserted_primary_key[0]  # type: ignore[index]  # never None
        host_capabilities.put(session, host_id, values)
        [host] = _with_capabilities(session, [_row(session, host_id)])
        effects.host_entered(ctx, host)
        return host


@db.retry_writes
def _change(
    ctx: Context, host_id: int, given: Mapping[str, str | None], name: str | None,
    reservable: bool | None, reason: str | None,
) -> tuple[Host, bool]:
    """Return the host as it is then, and whether leases may have lost or found something."""
    fields, values = _parted(given)
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.POOL)
        row = _row(session, host_id)
        if name is not None and name != row.name:
            raise InvalidLease(
                f"The host is called {row.name}, as its compute node or resource provider is; "
                "its name cannot be changed.", "name")
        present = host_capabilities.of_host(session, host_id) if values else {}
        present |= {field: getattr(row, field) for field in fields
                    if getattr(row, field) is not None}
        host_capabilities.require_unused(
            session, host_id,
            [key for key, value in given.items() if present.get(key, value) != value],
            _second(row.asked_at))
        host_capabilities.put(session, host_id, values)
        tree = session.execute(_TREE, {"root_id": row.provider_id}).scalars().all()
        session.execute(_CHANGE.values(
            **fields, **_service(row, reservable, reason),
            **_sizes(session.execute(_CAPACITIES, {"tree": list(tree)})),
        ), {"of_id": host_id})
        changed = _row(session, host_id)
        hurts = any(getattr(row, column) != getattr(changed, column)
                    for column in ("reservable", *_SIZES.values()))
        return _with_capabilities(session, [changed])[0], hurts


@db.retry_writes
def _leave(ctx: Context, host_id: int, effects: Effects) -> None:
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.POOL)
        revisions.raise_(session, revisions.POOL_HOSTS)
        row = _row(session, host_id)
        [host] = _with_capabilities(session, [row])
        if session.execute(
                _PROMISED, {"of_id": host_id, "now": _second(row.asked_at)}).first():
            raise HostInUse(f"Leases hold host {host.name} now, or will later.")
        if any(each.host_id == host_id
               for each in occupancy.find(session, cleaning_seconds=0)):
            raise HostInUse(f"A lease that holds host {host.name} has yet to be ended.")
        _refuse_consumers(session, _hold_tree(session, row.provider_id), host.name)
        fencing.unmark(session, row.provider_id)
        child = session.execute(_UUID, {"of_id": row.reservation_provider_id}).scalar()
        if child is not None:
            providers.delete(ctx, child)
        effects.host_left(ctx, host)
        host_capabilities.remove(session, host_id)
        history.keep_name(session, host_id, host.name)
        session.execute(_REMOVE, {"of_id": host_id})


def _parted(
    given: Mapping[str, str | None]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return what of given capabilities are fields, and what are not."""
    fields = {name: given[name] for name in host_capabilities.FIELDS if name in given}
    return fields, {name: value for name, value in given.items() if name not in fields}


def _service(
    row: sa.Row[Any], reservable: bool | None, reason: str | None
) -> Mapping[str, object]:
    """Return the columns that say whether a host is in service, as they shall be."""
    wanted = bool(row.reservable) if reservable is None else reservable
    if wanted:
        if reason is not None:
            raise InvalidLease("A host that is in service needs no reason for that.", "reason")
        return {"reservable": True, "down_reason": None}
    if reservable is None and reason is None:
        return {}
    # What somebody took out of service stays out until somebody puts it back, also if the
    # monitor had taken it out before.
    return {"reservable": False, "down_reason": reason or "taken out of service"}


def _check_reason(reason: str) -> None:
    if len(reason) > _LONGEST_REASON or not texts.is_storable(reason):
        raise InvalidLease(
            f"A reason has at most {_LONGEST_REASON} characters, and no NUL.", "reason")
    if reason.startswith(BY_MONITOR):
        raise InvalidLease(
            f"Reasons that begin with {BY_MONITOR!r} are those of the monitor.", "reason")


def _refuse_known(session: Session, provider_id: int, name: str) -> None:
    for row in session.execute(_KNOWN, {"of_provider": provider_id, "of_name": name}):
        if row.provider_id == provider_id:
            raise HostExists(f"{name} is in the freepool already, as host {row.id}.")
        if row.name == name:
            raise HostExists(f"Host {row.id} of the freepool is called {name} already.")


def _hold_tree(session: Session, root_id: int) -> set[int]:
    """Take the rows of a tree of providers; return their ids."""
    tree = set(session.execute(_TREE, {"root_id": root_id}).scalars())
    locks.hold(session, dict.fromkeys(tree, 0))
    # Nothing joins or leaves it now, for that takes a row of it. What did so before we
    # held them makes us begin again.
    if set(session.execute(_TREE, {"root_id": root_id}).scalars()) != tree:
        raise failures.TransactionConflict
    return tree


def _refuse_consumers(session: Session, tree: Iterable[int], name: str) -> None:
    consumers = session.execute(_CONSUMERS, {"tree": sorted(tree)}).scalar_one()
    if consumers:
        said = "1 consumer has" if consumers == 1 else f"{consumers} consumers have"
        raise HostInUse(f"{said} allocations on {name}, or on what is nested in it.")


def _child_name(found: _Found) -> str:
    name = f"reservation_{found.name}"
    return name if len(name) <= _LONGEST_PROVIDER_NAME else f"reservation_{found.uuid}"


def _require_inventories(node: ComputeNode, name: str) -> None:
    if node.state is not State.MIGRATED:
        raise InvalidLease(
            f"The compute node {name} has no inventories yet: {node.reason}.", "name")


@db.retry_writes
def _providers_called(ctx: Context, said: str) -> list[sa.Row[Any]]:
    """Return the providers whose name or uuid that is."""
    said = _canonical(said)
    with db.read_once(ctx) as session:
        # An adopted MySQL table compares without regard to case.
        return [row for row in session.execute(_CALLED, {"said": said})
                if said in (row.name, row.uuid)]


def _canonical(said: str) -> str:
    """Return the spelling of a uuid that providers have; anything else as it is."""
    try:
        return str(uuids.UUID(said))
    except ValueError:
        return said


# Sizes -------------------------------------------------------------------------------


def _sizes(capacities: Iterable[Any]) -> dict[str, int]:
    """Return what can be promised of a tree that has these ``(class, capacity)``."""
    sizes = dict.fromkeys(_SIZES.values(), 0)
    for name, capacity in capacities:
        column = _SIZES[name]
        sizes[column] = min(sizes[column] + max(capacity, 0), _LARGEST_SIZE)
    return sizes


def _outdated(session: Session) -> dict[sa.Row[Any], dict[str, int]]:
    """Return the sizes of the hosts that have others by their inventories."""
    present = session.execute(_ALL_SIZES).all()
    capacities: dict[int, list[tuple[str, int]]] = {row.id: [] for row in present}
    for row in session.execute(_ALL_CAPACITIES):
        capacities[row.id].append((row.name, row.capacity))
    wanted = {row: _sizes(capacities[row.id]) for row in present}
    return {row: sizes for row, sizes in wanted.items()
            if any(getattr(row, column) != amount for column, amount in sizes.items())}


# Rows --------------------------------------------------------------------------------


def _id(host_id: str) -> int:
    """Return the number that a host's id is.

    :raises HostNotFound: it is none.
    """
    if host_id.isascii() and host_id.isdigit() and len(host_id) <= len(str(_LARGEST_ID)):
        number = int(host_id)
        if number <= _LARGEST_ID:
            return number
    raise HostNotFound("There is no such host.")


def _row(session: Session, host_id: int) -> sa.Row[Any]:
    row = session.execute(_BY_ID, {"of_id": host_id}).first()
    if row is None:
        raise HostNotFound(f"There is no host {host_id}.")
    return row


@db.retry_writes
def _read_one(
    ctx: Context, statement: sa.Select[Any], parameters: Mapping[str, Any], said: str
) -> Host:
    with db.read(ctx) as session:
        row = session.execute(statement, parameters).first()
        if row is None:
            raise HostNotFound(f"There is no host {said}.")
        return _with_capabilities(session, [row])[0]


def _page(
    session: Session, after: int | None, limit: int | None
) -> tuple[list[Host], datetime.datetime | None]:
    """Return hosts, and when they were read; None: there are none."""
    statement, parameters = _ROWS.order_by(_hosts.c.id), dict[str, Any]()
    if after is not None:
        statement = statement.where(_hosts.c.id > sa.bindparam("after"))
        parameters["after"] = after
    if limit is not None:
        statement = statement.limit(sa.bindparam("most", type_=sa.Integer))
        parameters["most"] = limit
    found = session.execute(statement, parameters).all()
    return _with_capabilities(session, found), found[0].asked_at if found else None


def _with_capabilities(session: Session, found: Sequence[sa.Row[Any]]) -> list[Host]:
    """Return the hosts of rows, which are in the order of ids."""
    if not found:
        return []
    values: dict[int, dict[str, str]] = {row.id: {} for row in found}
    for row in session.execute(
            _CAPABILITIES, {"first": found[0].id, "last": found[-1].id}):
        values[row.computehost_id][row.property_name] = row.capability_value
    return [_host(row, values[row.id]) for row in found]


def _host(row: sa.Row[Any], capabilities: Mapping[str, str]) -> Host:
    fields = {name: getattr(row, name) for name in _FIELDS}
    fields |= {
        "reservable": bool(row.reservable), "created_at": _aware(row.created_at),
        "updated_at": None if row.updated_at is None else _aware(row.updated_at)}
    return Host(**fields, capabilities=capabilities)


def _allocations_of(found: Iterable[Any]) -> list[HostAllocation]:
    """Return what rows of ``_HELD`` say; there may be tens of thousands."""
    windows: dict[tuple[int, int], Window] = {}
    made = []
    for (host_id, name, lease_id, reservation_id, project_id, slots, whole, start, end,
         ended) in found:
        window = windows.get((start, end))
        if window is None:
            window = windows[start, end] = Window.of(start, end)
        made.append(HostAllocation(
            host_id, name or "", lease_id, reservation_id, project_id, slots, bool(whole),
            window, bool(ended)))
    return made


def _property(row: sa.Row[Any], values: Sequence[str] | None) -> HostProperty:
    return HostProperty(
        row.id, row.resource_type, row.property_name, bool(row.private), values,
        _aware(row.created_at), None if row.updated_at is None else _aware(row.updated_at))


def _aware(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=datetime.UTC)


def _second(moment: datetime.datetime) -> int:
    """Return a naive moment of the database's clock in seconds since the epoch."""
    return int(_aware(moment).timestamp())
