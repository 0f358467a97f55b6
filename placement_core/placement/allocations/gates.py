"""Gates: the interface of code that may refuse a write of allocations, or reacts to it.

Quota, access to reserved hosts and held claims are gates, which this room does not know. Each gate
is created once. For each attempt at a write it creates a check (``Gate.prepare``), which has the
state of this attempt, so an attempt that is rolled back leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placement_core import errors
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.plan import WritePlan
from placement_core.placement.records import AllocationWrite, NewInventories


@dataclasses.dataclass(frozen=True, slots=True)
class WriteRequest:
    """The request of a caller.

    :ivar writes: at most one for each consumer.
    :ivar inventories: for a reshape, the new inventories of the providers that it names.
    """

    writes: Sequence[AllocationWrite]
    inventories: NewInventories | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedWrite:
    """An attempt whose allocations are written, and whose consumers and providers are locked."""

    session: Session
    writes: Sequence[AllocationWrite]
    rows: LoadedRows
    plan: WritePlan


class Check:
    """The state of a gate in one attempt; methods that are not overridden do nothing.

    :cvar judges_reserved_trees: whether the check decides who may claim from reserved trees.
        Then the roots of the reserved trees that the write names are locked, too, and claims
        from a tree that was reserved since they were read fail.
    """

    judges_reserved_trees = False

    def consumers_locked(self, session: Session, writes: Sequence[AllocationWrite]) -> None:
        """React after the consumers are locked, before their allocations are replaced."""

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Decide whether the write is allowed, with consumers and providers locked.

        The check may take locks of its own (limit nodes). The usage of inventories and the usage
        counters are not written yet.

        :raises errors.Error: the write is refused, and the transaction is rolled back.
        """

    def applied(self, session: Session) -> None:
        """Write the gate's own rows, after the usage of the inventories was changed."""


class Gate:
    """May refuse a write, or react to it; methods that are not overridden do nothing."""

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Read what the gate needs, outside of the transaction; return the check of an attempt."""
        return Check()

    def make_room(self, ctx: Context, request: WriteRequest, refusal: errors.Error) -> bool:
        """Make room for a write that was refused; return whether to try it again."""
        return False
