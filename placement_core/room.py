"""How much room the cloud has: what there is, is used, held, promised to leases, and free.

The capacity index has the inventories, ``held_claims`` what claims hold that may expire, and the
booking index what leases have. They are read one after the other. The change log tells whether
anything was written meanwhile; if so, they are read again, a few times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from placement_core import db, metrics
from placement_core.changes import vector
from placement_core.changes.vector import Vector
from placement_core.context import Context
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.index import CapacityIndex, CapacitySnapshot
from placement_core.placement.index.array_types import Amounts
from placement_core.placement.room import groups, host_survey, promises, sums
from placement_core.placement.room.groups import GroupedBy, RoomFilter
from placement_core.placement.room.host_survey import HostSurvey
from placement_core.placement.room.promises import TreePromises
from placement_core.placement.room.sums import Room, RoomColumn
from placement_core.quota import held_claims
from placement_core.reservations.scheduling import promised_hosts
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.reservations.scheduling.pools import Bookings
from placement_core.reservations.scheduling.promised_hosts import PromisedHosts

#: The classes of which leases promise amounts: {class: (column of ``Size.amounts``, the classes
#: whose use counts against it, as host access counts it)}.
_PROMISED = {"VCPU": (0, ("VCPU", "PCPU")), "MEMORY_MB": (1, ("MEMORY_MB",)),
             "DISK_GB": (2, ("DISK_GB",))}
#: {(provider id, class id): what is held}.
_Held: TypeAlias = Mapping[tuple[int, int], int]

#: More than any amount: all that there is.
_EVERYTHING = 2**62
#: How often all is read, in search of a moment without writes.
_MOST_READS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class GroupRoom:
    """The room of a group of providers, by resource class.

    :ivar key: the uuid of the root or aggregate, or the name of the trait.
    :ivar name: of the root; else None.
    """

    key: str
    name: str | None
    resources: Mapping[str, Room]


class RoomQueries:
    """Answers how much room there is. Thread-safe."""

    def __init__(self, index: CapacityIndex, bookings: BookingIndex) -> None:
        self._index = index
        self._bookings = bookings
        self._columns: dict[int, RoomColumn] = {}

    def measure(self, ctx: Context, conditions: RoomFilter) -> dict[str, Room]:
        """Return the room of all providers that meet some conditions, by resource class.

        :raises errors.NotFound, errors.Invalid: the conditions name what does not exist.
        """
        snapshot, columns, _ = self._read(ctx, conditions.resource_class)
        rows = np.flatnonzero(groups.find_rows(snapshot, conditions))
        [room] = sums.sum_groups(columns, [rows], snapshot.size)
        return _name_classes(snapshot, room)

    def list_groups(
        self, ctx: Context, by: GroupedBy, conditions: RoomFilter, *,
        marker: str | None = None, limit: int | None = None,
    ) -> list[GroupRoom]:
        """Return the room of groups of the providers that meet some conditions, by their keys.

        :param marker: only groups with a greater key.
        :param limit: the largest number of groups to return.
        :raises errors.NotFound, errors.Invalid: the conditions name what does not exist.
        """
        snapshot, columns, _ = self._read(ctx, conditions.resource_class)
        found = groups.list_groups(
            snapshot, groups.find_rows(snapshot, conditions), by, marker=marker, limit=limit)
        rooms = sums.sum_groups(columns, [group.rows for group in found], snapshot.size)
        names = [_get_name(snapshot, group.key) if by == "root" else None for group in found]
        return [GroupRoom(group.key, name, _name_classes(snapshot, room))
                for group, name, room in zip(found, names, rooms, strict=True)]

    def survey(self, ctx: Context, resource_class: str | None = None) -> HostSurvey:
        """Return the state of each host.

        :param resource_class: of which the usage counts; None: of the one that a host has least
            left of. Without inventory of it, a host uses nothing.
        """
        snapshot, columns, hosts = self._read(ctx, None)
        row_of_id = snapshot.layout.row_of_id
        return host_survey.make(snapshot, columns, [
            row_of_id[id_] for id_ in hosts.provider_ids if id_ in row_of_id],
            resource_class)

    def export(self, ctx: Context) -> None:
        """Set the metrics of the whole cloud's room; to be called periodically."""
        metrics.set_room({
            (resource_class, state): amount
            for resource_class, room in self.measure(ctx, RoomFilter()).items()
            for state, amount in room._asdict().items()})

    def _read(
        self, ctx: Context, resource_class: str | None
    ) -> tuple[CapacitySnapshot, dict[int, RoomColumn], PromisedHosts]:
        """Return the columns of one class, or of all that are not slots of reservations.

        The hosts are those of which something is promised.
        """
        snapshot, held, hosts = self._read_moment(ctx)
        columns = self._columns = sums.build_columns(snapshot, self._columns)
        tree_promises = _find_trees(snapshot, hosts)
        names = snapshot.names.class_names
        return snapshot, {
            class_id: column.with_claims(
                _spread_held(snapshot, class_id, column, held),
                _compute_promised(snapshot, class_id, columns, tree_promises))
            for class_id, column in columns.items()
            if (names[class_id] == resource_class if resource_class is not None
                else not _is_of_slots(names[class_id]))}, hosts

    def _read_moment(self, ctx: Context) -> tuple[CapacitySnapshot, _Held, PromisedHosts]:
        """Read everything, of one moment unless there are writes all the time."""
        reads = 0
        while True:
            snapshot = self._index.snapshot(ctx)
            claims = _read_claims(ctx, self._bookings.present(ctx).bookings)
            reads += 1
            if claims.vector == snapshot.vector or reads == _MOST_READS:
                return snapshot, claims.held, claims.hosts


@dataclasses.dataclass(frozen=True, slots=True)
class _Claims:
    """What is held and promised, and the moment at which it was read."""

    vector: Vector
    held: _Held
    hosts: PromisedHosts


@db.retry_writes
def _read_claims(ctx: Context, bookings: Bookings) -> _Claims:
    with db.read(ctx) as session:
        return _Claims(
            vector.read_current(session), held_claims.sum_by_inventory(session),
            promised_hosts.read(session, bookings))


def _spread_held(
    snapshot: CapacitySnapshot, class_id: int, column: RoomColumn,
    held: _Held,
) -> Amounts:
    """Return what is held of each inventory of a class."""
    row_of_id = snapshot.layout.row_of_id
    by_row = {row_of_id[provider_id]: amount for (provider_id, of_class), amount in held.items()
              if of_class == class_id and provider_id in row_of_id}
    amounts = np.zeros(len(column.rows), dtype=np.int64)
    rows = np.array(sorted(by_row), dtype=np.intp)
    rows = rows[np.isin(rows, column.rows)]
    amounts[np.searchsorted(column.rows, rows)] = [by_row[row] for row in rows.tolist()]
    return amounts


def _find_trees(snapshot: CapacitySnapshot, hosts: PromisedHosts) -> TreePromises:
    """Return what is promised of the trees of hosts."""
    layout, ids = snapshot.layout, snapshot.names.class_ids
    there = [place for place, id_ in enumerate(hosts.provider_ids) if id_ in layout.row_of_id]
    position_of_root = np.full(snapshot.size, -1, dtype=np.intp)
    position_of_root[[layout.row_of_id[hosts.provider_ids[place]] for place in there]] = np.arange(
        len(there))
    return TreePromises(
        np.where(layout.root >= 0, position_of_root[layout.root], -1), hosts.whole[there],
        {ids[name]: hosts.amounts[there, column] for name, (column, _) in _PROMISED.items()
         if name in ids})


def _compute_promised(
    snapshot: CapacitySnapshot, class_id: int, columns: Mapping[int, RoomColumn],
    tree_promises: TreePromises,
) -> Amounts:
    """Return what is promised of each inventory of a class."""
    name, ids = snapshot.names.class_names[class_id], snapshot.names.class_ids
    promised = tree_promises.amounts.get(class_id)
    if _is_of_slots(name):
        promised = np.full(len(tree_promises.whole), _EVERYTHING, dtype=np.int64)
    counted: Sequence[str] = _PROMISED[name][1] if name in _PROMISED else (name,)
    used = promises.sum_used(
        [columns[ids[each]] for each in counted if ids.get(each) in columns], tree_promises)
    return promises.compute_promised(columns[class_id], promised, used, tree_promises)


def _is_of_slots(resource_class: str) -> bool:
    return resource_class.startswith(reserved_trees.PASSES)


def _get_name(snapshot: CapacitySnapshot, root_uuid: str) -> str:
    return snapshot.entry(snapshot.layout.row_of_uuid[root_uuid]).provider.name


def _name_classes(snapshot: CapacitySnapshot, room: Mapping[int, Room]) -> dict[str, Room]:
    return {snapshot.names.class_names[class_id]: sums_ for class_id, sums_ in room.items()}
