"""All hosts at a glance: how full each is, and whether it is leased, over-committed or disabled.

A host is a tree of providers, known by its root. The state of each is kept in arrays, because
there may be ten thousand hosts and more.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import os_traits

from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room.sums import RoomColumn

#: By what hosts can be grouped: the aggregates that their roots are in, or their own traits.
HostGrouping = Literal["aggregate", "trait"]

#: Traits of a site begin so; those that a driver reports of each host tell few hosts apart.
_OWN_TRAIT = "CUSTOM_"


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """A host.

    :ivar used_share: the used part of ``fullest``, the class of which the least is left, or the
        one that was asked for; above 1 where more is used than the capacity.
    :ivar fullest: None: the host has no capacity.
    :ivar leased: a lease has it, or part of it, now or later.
    :ivar overcommitted: more of a class is used than there is, less what is reserved: allocation
        ratios allow it.
    :ivar disabled: nothing new comes to it (``COMPUTE_STATUS_DISABLED``).
    """

    uuid: str
    name: str
    used_share: float
    fullest: str | None
    leased: bool
    overcommitted: bool
    disabled: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostGroup:
    """Hosts that are in the same aggregates, or have the same traits of the site.

    :ivar keys: uuids of aggregates or names of traits, in their order; empty: in none.
    :ivar positions: of the hosts in the survey, in the order of names.
    """

    keys: tuple[str, ...]
    positions: Rows


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostSurvey:
    """The hosts, in the order of their names; the arrays have an entry for each.

    :ivar roots: rows of the roots in the snapshot.
    :ivar fullest: ids of resource classes; -1: none.
    """

    snapshot: CapacitySnapshot
    roots: Rows
    used_shares: npt.NDArray[np.float64]
    fullest: npt.NDArray[np.int64]
    leased: Mask
    overcommitted: Mask
    disabled: Mask

    def describe(self, positions: Iterable[int]) -> list[HostState]:
        """Return the states of some hosts."""
        names = self.snapshot.names.class_names
        states = []
        for position in map(int, positions):
            provider = self.snapshot.entry(int(self.roots[position])).provider
            states.append(HostState(
                provider.uuid, provider.name, float(self.used_shares[position]),
                names.get(int(self.fullest[position])), bool(self.leased[position]),
                bool(self.overcommitted[position]), bool(self.disabled[position])))
        return states

    def find_after(self, positions: Rows, name: str) -> Rows:
        """Return those positions whose hosts come after a name.

        :param positions: in the order of names.
        """
        entries = self.snapshot.entries.select(self.roots[positions].tolist())
        return positions[bisect.bisect_right(
            entries, name, key=lambda entry: entry.provider.name):]

    def group(self, by: HostGrouping) -> list[HostGroup]:
        """Return the hosts in groups, each host once; the largest group first.

        Hosts that are in no aggregate, or have no trait, are a group, too.
        """
        entries = self.snapshot.entries.select(self.roots.tolist())
        positions_of_keys: dict[frozenset[str] | frozenset[int], list[int]] = {}
        if by == "aggregate":
            for position, entry in enumerate(entries):
                positions_of_keys.setdefault(entry.aggregates, []).append(position)
            named = [(tuple(sorted(map(str, keys))), positions)
                     for keys, positions in positions_of_keys.items()]
        else:
            names = self.snapshot.names.trait_names
            own = frozenset(id_ for id_, name in names.items() if name.startswith(_OWN_TRAIT))
            for position, entry in enumerate(entries):
                positions_of_keys.setdefault(entry.traits & own, []).append(position)
            named = [(tuple(sorted(names[int(id_)] for id_ in keys)), positions)
                     for keys, positions in positions_of_keys.items()]
        named.sort(key=lambda group: (-len(group[1]), group[0]))
        return [HostGroup(keys, np.array(positions, dtype=np.intp)) for keys, positions in named]


def make(
    snapshot: CapacitySnapshot, columns: Mapping[int, RoomColumn], leased_roots: Sequence[int],
    resource_class: str | None = None,
) -> HostSurvey:
    """Return the state of each host that has inventory.

    :param columns: by class id.
    :param leased_roots: rows of the roots of hosts with leases.
    :param resource_class: the only one whose usage counts; None: any.
    """
    root = snapshot.layout.root
    has_inventory = np.zeros(snapshot.size, dtype=bool)
    shares = np.full(snapshot.size, -1.0)
    fullest = np.full(snapshot.size, -1, dtype=np.int64)
    overcommitted = np.zeros(snapshot.size, dtype=bool)
    for class_id, column in columns.items():
        roots = root[column.rows]
        has_inventory[roots] = True
        used, capacity, present = (
            np.bincount(roots, amounts.astype(np.float64), snapshot.size) for amounts in (
                column.get("used"), column.get("capacity"),
                column.get("total") - column.get("reserved")))
        share = np.divide(used, capacity, out=np.full(snapshot.size, -1.0), where=capacity > 0)
        overcommitted |= used > present
        if resource_class not in (None, snapshot.names.class_names[class_id]):
            continue
        fuller = share > shares
        shares[fuller], fullest[fuller] = share[fuller], class_id
    positions = _sort_by_name(snapshot, np.flatnonzero(has_inventory))
    disabled = np.zeros(snapshot.size, dtype=bool)
    trait = snapshot.names.trait_ids.get(os_traits.COMPUTE_STATUS_DISABLED)
    if trait is not None:
        disabled[root[snapshot.rows_with_trait(trait).rows]] = True
    leased = np.zeros(snapshot.size, dtype=bool)
    leased[np.array(leased_roots, dtype=np.intp)] = True
    return HostSurvey(
        snapshot, positions, np.maximum(shares[positions], 0), fullest[positions],
        leased[positions], overcommitted[positions], disabled[positions])


def _sort_by_name(snapshot: CapacitySnapshot, roots: Rows) -> Rows:
    rows = roots.tolist()
    names = [entry.provider.name for entry in snapshot.entries.select(rows)]
    return roots[np.array(sorted(range(len(rows)), key=names.__getitem__), dtype=np.intp)]
