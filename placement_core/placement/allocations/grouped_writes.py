"""Several writes of allocations in one transaction, each of which is applied or refused by itself.

Each gets the answer that it would have got alone, if they had come one after the other. Unlike in
the unit of work of a single write, nothing is written before it is decided who is refused: of a
refused write only the rows of its consumers and the generations of its providers are to be undone.

Whether all fit, the statement that changes the inventories shows, as it does for a single write.
Who does not, only the bounds of the inventories show: a group reads them if that statement has
failed, or is likely to (``Shortages``). Source: design §4.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from placement_core import db, errors as core_errors
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import TransactionConflict
from placement_core.db.failures import translated_errors
from placement_core.db.session import RecordedChange
from placement_core.placement import errors, locks
from placement_core.placement.allocations import (
    applying,
    consumers,
    loaded,
    refusals,
    usage_delta,
)
from placement_core.placement.allocations.gates import (
    Check,
    Gate,
    PlannedWrite,
    Undecided,
    WriteRequest,
    tell_applied,
)
from placement_core.placement.allocations.loaded import Cell, LoadedRows
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.allocations.plan import (
    CapacityShort,
    WritePlan,
    merge_plans,
    plan_writes,
)
from placement_core.placement.allocations.refusals import InventoryBounds
from placement_core.placement.records import AllocationWrite

#: What became of a write: it was applied; why it is refused; or it was not decided here, and is
#: to be attempted alone.
Outcome: TypeAlias = Literal["applied"] | Undecided | Exception


@dataclasses.dataclass(slots=True)
class GroupedWrite:
    """A write of a group.

    :ivar request: of well-formed consumers, and no reshape.
    :ivar checks: one for each gate, from ``Gate.prepare``: those of the last attempt.
    :ivar caller: the context of its request.
    """

    request: WriteRequest
    checks: Sequence[Check]
    caller: Context


class Shortages:
    """Whether writes of this process were refused for lack of room lately. Thread-safe.

    A group that reads the bounds of the inventories first knows who does not fit. One that does
    not is faster, but is made again if somebody does not.
    """

    #: So many groups save together what one costs that is made again.
    _GROUPS = 20

    def __init__(self) -> None:
        self._groups_left = 0

    def are_likely(self) -> bool:
        """Return whether the next group should read the bounds first."""
        return self._groups_left > 0

    def note(self, *, short: bool) -> None:
        """Note whether a write of a group was short of room."""
        self._groups_left = self._GROUPS if short else max(0, self._groups_left - 1)


def apply_together(
    ctx: Context, writes: Sequence[GroupedWrite], gates: Sequence[Gate], owners: Owners,
    shortages: Shortages,
) -> list[Outcome]:
    """Apply writes in one transaction.

    :param writes: two or more, with consumers of their own.
    :param gates: those of all writes.
    :returns: the outcome of each. If the transaction was rolled back, all are undecided. An
        exception that is no refusal comes from the commit.
    """
    group = _Group(ctx, writes, gates, reads_bounds=shortages.are_likely())
    try:
        outcomes = _attempt(group, owners)
    except CapacityShort:
        shortages.note(short=True)
    else:
        shortages.note(short=group.was_short)
        return outcomes
    try:
        for write in writes:
            write.checks = [gate.prepare(ctx, write.request) for gate in gates]
        return _attempt(_Group(ctx, writes, gates, reads_bounds=True), owners)
    except Exception:  # noqa: BLE001 (each write finds out by itself)
        return [Undecided() for _ in writes]


def _attempt(group: _Group, owners: Owners) -> list[Outcome]:
    """Attempt to apply a group.

    :raises CapacityShort: an inventory does not allow the changes of all writes together.
    """
    session: db.Session | None = None
    try:
        with (translated_errors(), owners.forgetting(), db.write(group.ctx) as session):
            group.apply(session)
    except _NothingToApply:
        return group.outcomes
    except CapacityShort:
        raise
    except TransactionConflict:
        return [Undecided() for _ in group.outcomes]
    except Exception as error:  # noqa: BLE001 (each write finds out by itself)
        # Unless the COMMIT was lost, which may have happened.
        sent = session is not None and session.commit_sent
        return [error if sent else Undecided() for _ in group.outcomes]
    return group.outcomes


class _NothingToApply(Exception):
    """All writes are refused or undecided, so the transaction is rolled back."""


class _Group:
    """The writes of one transaction.

    :ivar outcomes: one for each write; "applied" as long as nothing else is known.
    :ivar was_short: whether a write is refused for lack of room.
    """

    def __init__(
        self, ctx: Context, writes: Sequence[GroupedWrite], gates: Sequence[Gate], *,
        reads_bounds: bool = False,
    ) -> None:
        """Initialize an attempt.

        :param reads_bounds: whether it is to find out which writes do not fit.
        """
        self.ctx = ctx
        self.was_short = False
        self._reads_bounds = reads_bounds
        self._gates = gates
        # Deletions first, because they make room for the others.
        self._order = sorted(range(len(writes)), key=lambda position: any(
            write.allocations for write in writes[position].request.writes))
        self._writes = writes
        self._rows = LoadedRows()
        self._existed: set[str] = set()
        self._not_locked: Collection[str] = ()
        self._planned: dict[int, PlannedWrite] = {}
        self._refused_by_gates: list[int] = []
        self.outcomes: list[Outcome] = ["applied"] * len(writes)

    def apply(self, session: db.Session) -> None:
        """Apply the writes that are not refused, in the order of locks.

        :raises _NothingToApply: there are none.
        :raises CapacityShort: as ``_attempt``. The session's next statement may raise it.
        """
        self._load(session)
        self._plan(session)
        steps = _add_steps(self._planned.values())
        locks.lock_providers_later(session, steps)
        if self._reads_bounds or _mixes_signs(self._planned.values()):
            # Read before gates take locks of their own, for which other workers' groups wait.
            bounds = refusals.read_bounds_later(session, steps)
            self._ask_gates()
            self._check_bounds(bounds())
        else:
            self._ask_gates()
        applied = self._list_applied()
        plan = merge_plans(self._planned[position].plan for position in applied)
        self._undo_others(session, applied, steps, plan)
        consumers.date(session, self._existed & plan.owners.keys())
        applying.write_allocations(session, plan, self._rows.now)
        for position in applied:
            session.attribute(
                self._writes[position].caller, _list_changes(self._planned[position].plan))
        checks = [check for position in applied for check in self._writes[position].checks]
        applying.change_used(
            session, plan, () if any(check.judges_reserved_trees for check in checks) else None)
        tell_applied(session, checks)
        applying.count(self.ctx, session, plan, self._gates)

    def _list_applied(self) -> list[int]:
        """Return the positions of the writes that are not refused, in their order.

        :raises _NothingToApply: there are none.
        """
        applied = [position for position in self._order if self.outcomes[position] == "applied"]
        if not applied:
            raise _NothingToApply
        return applied

    def _load(self, session: db.Session) -> None:
        """Lock the consumers, and read the rows that the writes name."""
        # Not dated: of those that are refused nothing is to be written.
        writes = self._collect_writes(self._order)
        (self._existed, refused, _), self._rows = loaded.lock_and_read(
            session, writes, lambda: consumers.lock_or_insert_each(session, writes, None))
        for position in self._order:
            for uuid in sorted(write.consumer_uuid
                               for write in self._writes[position].request.writes):
                if uuid in refused:
                    self.outcomes[position] = refused[uuid]
                    break
        self._not_locked = refused.keys()

    def _collect_writes(self, positions: Iterable[int]) -> list[AllocationWrite]:
        return [write for position in positions for write in self._writes[position].request.writes]

    def _plan(self, session: db.Session) -> None:
        """Compute the changes of each write."""
        rows = self._rows
        paired = {*rows.paired, *rows.paired.values()}
        for position in self._list_applied():
            write = self._writes[position]
            writes = write.request.writes
            if any(each.consumer_uuid in paired for each in writes):
                # The pair may be changed by two writes of the group.
                self.outcomes[position] = Undecided()
                continue
            try:
                refusals.check_providers(writes, rows)
                refusals.check_classes(writes, rows)
                plan = plan_writes(
                    writes, rows, self._existed, raise_generations=not write.request.deletes)
                if write.request.deletes and not plan.ended:
                    raise errors.NoAllocations(writes[0].consumer_uuid)
            except TransactionConflict:
                self.outcomes[position] = Undecided()
            except core_errors.Error as refusal:
                self.outcomes[position] = refusal
            else:
                self._planned[position] = PlannedWrite(
                    session, writes, rows, plan, in_group=True)
                for check in write.checks:
                    check.consumers_locked(session, writes)
        self._list_applied()

    def _ask_gates(self) -> None:
        for number, gate in enumerate(self._gates):
            positions = self._list_applied()
            refused = gate.decide(
                self.ctx, [self._writes[position].checks[number] for position in positions],
                [self._planned[position] for position in positions])
            if refused:
                self._doubt_gates()
            for place, refusal in refused.items():
                self.outcomes[positions[place]] = refusal
                self._refused_by_gates.append(positions[place])
            if number:  # a gate does not count what it refuses itself
                for place in refused:
                    self._doubt_behind(positions[place])

    def _doubt_behind(self, position: int) -> None:
        """Have writes attempted alone that are behind one that was refused after gates decided.

        They may have been allowed because it was to give back something; and refused because of
        others that were allowed for that.
        """
        changes = usage_delta.find_changes(self._planned[position].plan)
        if min(changes.values(), default=0) < 0:
            for behind in self._order[self._order.index(position) + 1:]:
                if self.outcomes[behind] == "applied" or behind in self._refused_by_gates:
                    self.outcomes[behind] = Undecided()

    def _doubt_gates(self) -> None:
        """Have writes attempted alone that gates refused, because others are refused now.

        The gates may have counted these.
        """
        for position in self._refused_by_gates:
            self.outcomes[position] = Undecided()

    def _check_bounds(self, bounds: dict[Cell, InventoryBounds]) -> None:
        """Refuse writes that do not fit the inventories, each behind those before it.

        :param bounds: of the inventories of all providers that the writes name.
        """
        for position in self._list_applied():
            if self.outcomes[position] != "applied":
                continue  # since one before it was refused
            write = self._planned[position]
            refusal = refusals.find_refusal(
                write.writes, self._rows, bounds, write.plan.deltas)
            if refusal is not None:
                self.outcomes[position], self.was_short = refusal, True
                self._doubt_behind(position)
                continue
            for cell, delta in write.plan.deltas.items():
                if cell in bounds:
                    bounds[cell] = bounds[cell]._replace(used=bounds[cell].used + delta)
        if self.was_short:
            self._doubt_gates()

    def _undo_others(
        self, session: db.Session, applied: Sequence[int], steps: Mapping[int, int],
        plan: WritePlan,
    ) -> None:
        """Undo what was done for the writes that are not applied."""
        if len(applied) == len(self._writes):
            return
        others = [
            write for write in self._collect_writes(set(range(len(self._writes))) - set(applied))
            if write.consumer_uuid not in self._not_locked]
        consumers.undo(session, others, self._existed)
        locks.lock_providers_later(session, {
            provider: plan.steps.get(provider, 0) - step for provider, step in steps.items()
            if plan.steps.get(provider, 0) != step})


def _list_changes(plan: WritePlan) -> list[RecordedChange]:
    """Return the objects that a write changes, as the change log names them.

    The usage of providers follows from them.
    """
    return [RecordedChange(kinds.CONSUMER, uuid=uuid) for uuid in plan.consumers]


def _mixes_signs(writes: Iterable[PlannedWrite]) -> bool:
    """Return whether one write takes what another gives back.

    Then the sum may fit although one of them does not.
    """
    changes = [change for write in writes for change in write.plan.deltas.items()]
    grown = {cell for cell, delta in changes if delta > 0}
    return any(delta < 0 and cell in grown for cell, delta in changes)


def _add_steps(writes: Iterable[PlannedWrite]) -> collections.Counter[int]:
    """Return the increments of the generations of providers, added up."""
    steps: collections.Counter[int] = collections.Counter()
    for write in writes:
        for provider, step in write.plan.steps.items():
            steps[provider] += step
    return steps
