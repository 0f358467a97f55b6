"""Gates: the interface of code that may refuse a write of allocations, or reacts to it.

Quota, access to reserved hosts and held claims are gates, which this room does not know. Each gate
is created once. For each attempt at a write it creates a check (``Gate.prepare``), which has the
state of this attempt, so an attempt that is rolled back leaves nothing behind. A gate decides
about all writes of a transaction together (``Gate.decide``), usually about one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

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
    :ivar deletes: whether it is a deletion of a consumer's allocations: it is refused if there
        are none, and generations of providers do not change.
    :ivar choose: chooses the allocations in the transaction, before anything else is locked;
        ``writes`` then are those that it would have chosen before, of the same consumers or more.
    """

    writes: Sequence[AllocationWrite]
    inventories: NewInventories | None = None
    deletes: bool = False
    choose: Callable[[Session], Sequence[AllocationWrite]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write whose consumers and providers are locked, and whose changes are computed.

    :ivar in_group: whether it shares the transaction with other writes, which may have been
        refused already. Then its allocations are not written yet; otherwise they are.
    """

    session: Session
    writes: Sequence[AllocationWrite]
    rows: LoadedRows
    plan: WritePlan
    in_group: bool = False


class Check:
    """The state of a gate in one attempt; methods that are not overridden do nothing.

    :cvar judges_reserved_trees: whether the check decides who may claim from reserved trees.
        Then the roots of the reserved trees that the write names are locked, too, and claims
        from a tree that was reserved since they were read fail.
    """

    judges_reserved_trees = False

    def consumers_locked(self, session: Session, writes: Sequence[AllocationWrite]) -> None:
        """React after the consumers are locked, before their allocations are replaced."""

    def applied(self, session: Session) -> None:
        """Write the gate's own rows, after the usage of the inventories was changed."""


def tell_applied(session: Session, checks: Iterable[Check]) -> None:
    """Call ``applied`` of checks that do something then, once the usage has changed."""
    told = [check for check in checks if type(check).applied is not Check.applied]
    if told:
        session.flush()
    for check in told:
        check.applied(session)


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """A gate does not decide about a write together with others; it is attempted alone."""


#: {position of a write: why it is not applied}
Refusals: TypeAlias = Mapping[int, errors.Error | Undecided]


class Gate:
    """May refuse a write, or react to it; methods that are not overridden do nothing.

    :ivar queues_projects: whether writes that let a project use more wait for each other because
        of this gate. Then it is of no use to split the project's usage counters.
    """

    queues_projects = False

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Read what the gate needs, outside of the transaction; return the check of an attempt."""
        return Check()

    def decide(
        self, ctx: Context, checks: Sequence[Check], writes: Sequence[PlannedWrite]
    ) -> Refusals:
        """Decide which writes of a transaction are allowed, with consumers and providers locked.

        The locks of providers may be deferred (``Session``): statements of the session see them,
        and who reads on another connection flushes first.
        The gate may take locks of its own (limit nodes). The usage of inventories and the usage
        counters are not written yet. Each write is decided as if those before it that are not
        refused were applied. Only a write of a group may be ``Undecided``.

        :param checks: this gate's, one for each write.
        """
        return {}

    def make_room(self, ctx: Context, request: WriteRequest, refusal: errors.Error) -> bool:
        """Make room for a write that was refused; return whether to try it again."""
        return False
