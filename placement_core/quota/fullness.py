"""Fullness of limit nodes, by which the guard allows claims without reading the usage below.

The fullness of a node is the largest used part of any of its limits. Its row has an upper bound of
it: each guarded growth of usage adds the largest part that it takes of any limit, in the statement
that locks the rows, and which meets no row that would get more than full. What shrinks is not
subtracted. So the bound rises until a claim does not fit; then usage is read, and the bound is
set anew.

A process relies on a bound only if it set it not long ago (``Allowances``), so that it seldom
fails, and soon notices usage that others let grow without the guard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.placement.usage.usage_index import ProjectSet
from placement_core.plugin_api.enforcement import Binding
from placement_core.quota.decisions import Decisions, ProjectLimits, Totals

#: The fullness of a node of which one limit is used up.
FULL = 1_000_000_000

#: How long a process relies on the bound that it set, in seconds. Whoever reads usage anew locks
#: the nodes of all claims that share its transaction, for which the other processes wait.
_RELIED_ON_SECONDS = 300
#: How many nodes it remembers.
_MOST_NODES = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class CountedLimit:
    """A limit, what counts as its resource, and the projects whose usage counts against it."""

    limit: Amount
    units: Collection[str]
    projects: ProjectSet


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLimits:
    """The limits of a node, whoever of its subtree claims.

    :ivar basis: names these limits, their revision and the node: who finds it in a row knows what
        the fullness there is that of.
    :ivar bindings: the limits, with the names of their resources.
    """

    basis: int
    bindings: Collection[tuple[str, Binding]]
    limits: Sequence[CountedLimit]

    def measure(self, usages: Totals) -> int:
        """Return the fullness of the node, rounded up."""
        return max(
            find_part(sum([usages.total(counted.projects, unit) for unit in counted.units]),
                      counted.limit)
            for counted in self.limits)


class Charge(NamedTuple):
    """A part of the limits of a node that is used, or claimed.

    :ivar part: in units of 1 / ``FULL``, rounded up.
    """

    limits: NodeLimits
    part: int


#: {id of the row of a limit node: what is claimed there}
Charges = Mapping[int, Charge]


def find_part(amount: int, limit: Amount) -> int:
    """Return the part of a limit that an amount is, rounded up; no more than a bit over full."""
    if amount <= 0 or limit == amounts.UNLIMITED:
        return 0
    return FULL + 1 if amount > limit else -(-amount * FULL // int(limit))


def list_node_limits(decisions: Decisions, limits: ProjectLimits) -> dict[str, NodeLimits]:
    """Return the limits of the nodes above a project, and of its own, of guarded resources.

    These are the limits that bind the node itself, so that claims below it find the same.
    """
    names = sorted(filter(decisions.resources.is_guarded, limits.effective.defaults))
    node_limits = {}
    for depth, node in enumerate(limits.lineage, start=1):
        bindings = [
            (name, binding) for name in names
            for binding in decisions.bindings_of(limits.lineage[:depth], limits.effective, name)
            if binding.node_id == node.id]
        if bindings and all(binding.scope == "own" or node.id in limits.subtrees
                            for _, binding in bindings):
            node_limits[node.id] = _count_limits(decisions, limits, node.id, bindings)
    return node_limits


def _count_limits(
    decisions: Decisions, limits: ProjectLimits, node_id: str,
    bindings: Sequence[tuple[str, Binding]],
) -> NodeLimits:
    units = decisions.resources.units
    return NodeLimits(
        _name_basis(limits.state, node_id, [
            (name, binding.scope, binding.limit, *sorted(units(name)))
            for name, binding in bindings]),
        frozenset(bindings),
        [CountedLimit(binding.limit, units(name), limits.counted_projects(binding))
         for name, binding in bindings])


def _name_basis(state: str, node_id: str, limits: Sequence[Sequence[object]]) -> int:
    """Return a number of 64 bits, with its sign."""
    named = hashlib.blake2b(repr((state, node_id, limits)).encode(), digest_size=8)
    return int.from_bytes(named.digest(), signed=True)


def add_charges(charges: Iterable[Charges | None]) -> Charges | None:
    """Add up what several growths add to nodes.

    :returns: None: of one of them it is not known, or they are bound by different limits of
        one node.
    """
    total: dict[int, Charge] = {}
    for each in charges:
        if each is None:
            return None
        for row_id, charge in each.items():
            earlier = total.get(row_id)
            if earlier is None:
                total[row_id] = charge
            elif earlier.limits.basis != charge.limits.basis:
                return None
            else:
                total[row_id] = Charge(charge.limits, earlier.part + charge.part)
    return total


@dataclasses.dataclass(slots=True)
class _Allowance:
    """What a process may still add to the fullness of a node.

    :ivar until: by the monotonic clock, in seconds.
    """

    basis: int
    part: int
    until: float


class Allowances:
    """What this process may add to the fullness of nodes before it reads usage. Thread-safe.

    It is half of what is free: other processes add to it, too. Whether it fits is decided by the
    rows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: {id of the node's row: what may be added}
        self._allowances: dict[int, _Allowance] = {}

    def take(self, charges: Charges) -> bool:
        """Take what is to be added to nodes; return False, and take nothing, if one is short."""
        now = time.monotonic()
        with self._lock:
            taken = []
            for row_id, charge in charges.items():
                allowance = self._allowances.get(row_id)
                if (allowance is None or allowance.basis != charge.limits.basis
                        or allowance.part < charge.part or allowance.until < now):
                    return False
                taken.append((allowance, charge.part))
            for allowance, part in taken:
                allowance.part -= part
        return True

    def grant(self, measured: Charges) -> None:
        """Allow more below nodes whose fullness was just set.

        :param measured: {id of a row: the fullness that was set}.
        """
        until = time.monotonic() + _RELIED_ON_SECONDS
        with self._lock:
            if len(self._allowances) + len(measured) > _MOST_NODES:
                self._allowances.clear()
            for row_id, charge in measured.items():
                self._allowances[row_id] = _Allowance(
                    charge.limits.basis, (FULL - charge.part) // 2, until)

    def forget(self, row_ids: Iterable[int]) -> None:
        """Allow nothing more below nodes before usage is read again."""
        with self._lock:
            for row_id in row_ids:
                self._allowances.pop(row_id, None)
