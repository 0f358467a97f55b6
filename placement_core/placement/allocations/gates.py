"""Gates: whoever may refuse a write of allocations, or has to be told of it.

Who they are this room does not know: quota, access to reserved hosts, held claims. They
are made once; each attempt at a write gets a check of its own from each of them
(``prepare``), so nothing is left of an attempt that was undone.
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
    """What a caller asks for.

    :ivar writes: at most one for each consumer.
    :ivar inventories: of a reshape: all that the named providers shall have.
    """

    writes: Sequence[AllocationWrite]
    inventories: NewInventories | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedWrite:
    """An attempt whose allocations are written, and whose locks are all taken."""

    session: Session
    writes: Sequence[AllocationWrite]
    rows: LoadedRows
    plan: WritePlan


class Check:
    """A gate's part in one attempt; what it does not override does nothing.

    :cvar judges_reserved_trees: it decides who may claim of reserved trees. The roots of
        those that the write names are locked too then, and nothing is given of a tree
        that was reserved since they were read.
    """

    judges_reserved_trees = False

    def consumers_locked(self, session: Session, writes: Sequence[AllocationWrite]) -> None:
        """Look at what the consumers hold, before it is written anew."""

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Decide, with consumers and providers locked.

        May take locks of its own (limit nodes). Capacity and usage counters are not
        written yet.

        :raises errors.Error: the write is refused, and the transaction undone.
        """

    def applied(self, session: Session) -> None:
        """Write what belongs to it; capacity was given."""


class Gate:
    """Somebody who may refuse, or has to be told; what it does not override does nothing."""

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Fetch what it needs, outside of the transaction; return its part in this attempt."""
        return Check()

    def make_room(self, ctx: Context, request: WriteRequest, refusal: errors.Error) -> bool:
        """Say whether a write that was refused is worth another attempt, after making room."""
        return False
