"""The unit of work of every write of allocations: its steps, in the order of locks.

The order is: consumers and pairs, providers by id, the rows that gates lock, inventories, usage
counters (``locks``). ``replace``, ``delete`` and ``reshape`` are lists of these steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from placement_core import db, errors
from placement_core.context import Context
from placement_core.placement import locks
from placement_core.placement.allocations import applying, consumers, loaded
from placement_core.placement.allocations.gates import (
    Check,
    Gate,
    PlannedWrite,
    WriteRequest,
    tell_applied,
)
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.owners import Owners, normalize_owners
from placement_core.placement.allocations.plan import WritePlan, plan_writes
from placement_core.placement.allocations.refusals import explaining_refusals
from placement_core.placement.records import AllocationWrite

#: A list of steps; returns the checks of the gates, in the order of the gates.
Attempt: TypeAlias = Callable[
    [Context, WriteRequest, Sequence[Gate], Owners], Sequence[Check]]


def carry_out(
    attempt: Attempt, ctx: Context, request: WriteRequest, gates: Sequence[Gate],
    owners: Owners,
) -> Sequence[Check]:
    """Make an attempt, and another one if it is refused and a gate makes room.

    :returns: the checks of the attempt that was committed.
    """
    try:
        return attempt(ctx, request, gates, owners)
    except errors.Error as refusal:
        if not any(gate.make_room(ctx, request, refusal) for gate in gates):
            raise
    return attempt(ctx, request, gates, owners)


@contextlib.contextmanager
def unit_of_work(
    ctx: Context, request: WriteRequest, gates: Sequence[Gate], owners: Owners,
) -> Iterator[UnitOfWork]:
    """Prepare an attempt, and open its transaction."""
    owners.ensure(ctx, request.writes)
    checks = [gate.prepare(ctx, request) for gate in gates]
    with (explaining_refusals(ctx, request.writes, request.inventories), owners.forgetting(),
          db.write(ctx) as session):
        writes = (request.writes if request.choose is None
                  else normalize_owners(ctx, request.choose(session)))
        yield UnitOfWork(ctx, session, writes, gates, checks)


class UnitOfWork:
    """One attempt at a write. Each step requires the previous ones.

    :ivar writes: those of the request, or those that it chose.
    """

    def __init__(
        self, ctx: Context, session: db.Session, writes: Sequence[AllocationWrite],
        gates: Sequence[Gate], checks: Sequence[Check],
    ) -> None:
        self.session = session
        self.writes = writes
        self._ctx = ctx
        self._gates = gates
        self.checks = checks
        self._existed: set[str] = set()
        self._rows = LoadedRows()
        self._plan = WritePlan()
        self._judged = any(check.judges_reserved_trees for check in checks)

    def load(
        self, *, providers: Collection[str] = (), classes: Collection[str] = ()
    ) -> LoadedRows:
        """Lock the consumers, and read the rows that the writes name.

        :param providers: uuids of further providers to read; ``classes``: names of classes.
        """
        locked, self._rows = loaded.lock_and_read(
            self.session, self.writes,
            lambda: consumers.lock_or_insert(self.session, self.writes),
            more_providers=providers, more_classes=classes)
        self._existed = locked.existed
        return self._rows

    def plan(self, *, raise_generations: bool = True) -> WritePlan:
        """Lock the pairs to which the consumers belong, and compute the changes.

        :param raise_generations: whether the generations of providers are incremented.
        """
        loaded.lock_pairs(self.session, self._rows, self.writes)
        self._plan = plan_writes(
            self.writes, self._rows, self._existed, raise_generations=raise_generations)
        for check in self.checks:
            check.consumers_locked(self.session, self.writes)
        return self._plan

    def lock_providers(
        self, steps: Mapping[int, int] = MappingProxyType({}),
    ) -> Mapping[int, int]:
        """Write the allocations, lock the providers, and let the gates decide.

        :param steps: {provider id: increment of its generation in addition to the plan's}.
        :returns: {provider id: increment}.
        :raises errors.Error: a gate refuses the write.
        """
        session = self.session
        applying.write_allocations(session, self._plan, self._rows.now)
        written = steps.keys()
        steps = {**steps, **{provider: steps.get(provider, 0) + step
                             for provider, step in self._plan.steps.items()}}
        if self._judged:
            # The roots of reserved trees are locked, too, so that claims on each are serialized.
            steps = {**dict.fromkeys(self._rows.reserved_roots.values(), 0), **steps}
        recorded = session.recorded_changes.copy()
        locks.lock_providers_later(session, steps)
        session.implied_changes = {
            change for change in session.recorded_changes - recorded if change.ref not in written}
        write = PlannedWrite(session, self.writes, self._rows, self._plan)
        for gate, check in zip(self._gates, self.checks, strict=True):
            for refusal in gate.decide(self._ctx, [check], [write]).values():
                assert isinstance(refusal, errors.Error)  # the write is the only one
                raise refusal
        return steps

    def apply(self) -> None:
        """Change the usage of the inventories, if all of them allow it."""
        applying.change_used(
            self.session, self._plan, self._rows.reserved_roots if self._judged else None)
        tell_applied(self.session, self.checks)

    def count(self) -> None:
        """Write the usage counters, after the gates, which decide by committed usage."""
        applying.count(self._ctx, self.session, self._plan, self._gates)
