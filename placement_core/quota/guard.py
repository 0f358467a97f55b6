"""The quota guard: enforces limits on growing usage in the transaction that makes it grow.

So there is no race and no re-check: of the claims that count against the same limit, one is
decided while the others wait, and its decision sees all that was committed before.
Source: design §5, requirement Q9.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from placement_core import amounts, errors as core_errors, metrics
from placement_core.amounts import Amount
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict
from placement_core.placement.allocations import usage_delta
from placement_core.placement.allocations.gates import (
    Check,
    Gate,
    PlannedWrite,
    Refusals,
    WriteRequest,
)
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.usage import project_usage
from placement_core.placement.usage.usage_index import ProjectSet
from placement_core.quota import errors, fullness, locked_usage, recheck_order
from placement_core.quota.decisions import Decisions, ProjectLimits, Totals, add_up
from placement_core.quota.fullness import Allowances, Charge
from placement_core.quota.growths import (
    Growth,
    PreparedLimits,
    User,
    claim_nothing,
    find_growth,
)
from placement_core.quota.limit_sources import LimitSource, list_limited_resources
from placement_core.quota.locked_usage import LockedUsage, ProjectRows
from placement_core.quota.nodes import LimitNodes
from placement_core.quota.records import ExceededLimit

LOG = logging.getLogger(__name__)

Mode = Literal["audit", "enforce"]


class QuotaGuard(Gate):
    """Enforces limits on every write of allocations, except reshapes."""

    def __init__(
        self, decisions: Decisions, nodes: LimitNodes, source: LimitSource, mode: Mode, *,
        owners: Owners, record_grants: bool = False,
    ) -> None:
        """Initialize the guard of all writes.

        :param owners: caches the ids of projects.
        :param record_grants: record granted claims as accepted re-checks, because other
            writers are not guarded.
        """
        self._decisions = decisions
        self._nodes = nodes
        self._source = source
        self._mode = mode
        self._record_grants = record_grants
        self._owners = owners or Owners()
        # Limits and catalogs of other services have no revision.
        self._keeps_fullness = mode == "enforce" and not record_grants and decisions.cacheable
        self._allowances = Allowances()
        self.queues_projects = mode == "enforce"

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Fetch the limits that bind the projects, and insert the rows that will be locked.

        :raises errors.Unavailable: limits or the catalog are not known now; in mode
            ``audit`` the write passes then.
        """
        owners = frozenset((write.project_id, write.user_id)
                           for write in request.writes if write.allocations)
        if request.inventories is not None:
            return self._prepare_reshape(ctx, owners)
        if not owners:
            return Check()  # writes that shrink usage are never refused
        try:
            return self._prepare_limits(ctx, owners)
        except TransactionConflict:
            raise
        except core_errors.Unavailable as error:
            if self._mode == "enforce":
                raise
            metrics.count_decision(self._mode, "unknown")
            LOG.warning("quota guard (audit): not known whether it would be refused: %s", error)
        return Check()

    def _prepare_reshape(self, ctx: Context, owners: frozenset[User]) -> Check:
        """Return the check of a reshape, which passes also while limits are not known."""
        if not owners or not self._keeps_fullness:
            return _Reshape(None)
        try:
            return _Reshape(self._prepare_limits(ctx, owners))
        except TransactionConflict:
            raise
        except core_errors.Unavailable:
            return _Reshape(None)

    def _prepare_limits(self, ctx: Context, owners: frozenset[User]) -> PreparedLimits:
        return self._decisions.derive(ctx, (self, owners), lambda: self._fetch(ctx, owners))

    def _fetch(self, ctx: Context, owners: Collection[User]) -> PreparedLimits:
        decisions = self._decisions
        key = decisions.service_key(ctx, self._source.service_type, self._source.region_id)
        project_limits: dict[str, ProjectLimits] = {}
        users_limits: dict[User, Mapping[str, Amount]] = {}
        for project_id, user_id in sorted(owners):
            project_limits[project_id] = decisions.project_limits(ctx, project_id, key)
            user_limits = decisions.user_limits(
                ctx, project_id, user_id, key, project_limits[project_id].revision)
            if user_limits:
                users_limits[project_id, user_id] = user_limits
        counted = {
            project_id for limits in project_limits.values()
            for project_id in itertools.chain(
                (node.id for node in limits.lineage),
                *(subtree.project_ids for subtree in limits.subtrees.values()))}
        # Claims of a tree share it.
        rows = None if len(counted) > locked_usage.MOST_PROJECTS else decisions.derive(
            ctx, (self, frozenset(counted)),
            lambda: ProjectRows(self._owners.project_ids(ctx, counted)))
        node_limits = {
            project_id: fullness.list_node_limits(decisions, limits)
            for project_id, limits in project_limits.items()
        } if self._keeps_fullness else {}
        node_ids = self._nodes.ensure(ctx, {
            *project_limits, *(
                node_id for limits in project_limits.values()
                for node_id in decisions.nodes_to_lock(
                    limits, list_limited_resources(limits.effective)))})
        return PreparedLimits(project_limits, users_limits, node_ids, rows, node_limits)

    def decide(
        self, ctx: Context, checks: Sequence[Check], writes: Sequence[PlannedWrite]
    ) -> Refusals:
        """Refuse writes that exceed a limit, with every limit that they exceed.

        The nodes of all writes are locked, and the usage below them is read, once; unless the
        fullness of the nodes shows that all of them fit. A write counts for those behind it,
        unless it is refused.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``. If they
            change before the commit, the transaction fails there.
        """
        classes = frozenset(writes[0].rows.classes.items())
        growths = {
            position: growth
            for position, (check, write) in enumerate(zip(checks, writes, strict=True))
            if isinstance(check, PreparedLimits)
            and (growth := find_growth(self._decisions, check, write, classes)) is not None}
        session = writes[0].session
        unjudged_limits = _list_unjudged_limits(checks, writes)
        if None in unjudged_limits and self._mode == "enforce":
            self._nodes.forget_fullness_later(session)
        grown_limits = [limits for limits in unjudged_limits if limits is not None]
        prepared_limits = [*(growth.limits for growth in growths.values()), *grown_limits]
        if not prepared_limits:
            return {}
        project_limits = [
            limits for each in prepared_limits for limits in each.project_limits.values()]
        if self._mode == "enforce" and self._decisions.cacheable:
            # Claims under new limits may lock other nodes, and would not see these writes.
            for state in {limits.state for limits in project_limits}:
                revisions.depend_on_limits(session, state, self._decisions.forget)
        if not unjudged_limits and self._charge_nodes(ctx, session, list(growths.values())):
            metrics.count_decision(self._mode, "allowed", len(growths))
            return {}
        if self._mode == "enforce":
            self._lock_nodes(session, growths.values(), grown_limits)
        if not growths:
            return {}
        used = self._read_usage(ctx, session, list(growths.values()), project_limits)
        usage = _UsageSoFar(
            used, usage_delta.NamedChanges(writes if len(writes) > 1 else ()))
        refusals = {}
        for position in range(len(writes)):
            if position in growths:
                refusal = self._judge(ctx, growths[position], usage)
                if refusal is not None:
                    refusals[position] = refusal
            if len(writes) > 1 and position not in refusals:
                usage.changes.add(position)
        if not unjudged_limits:
            self._set_fullness(ctx, session, growths, refusals, used)
        return refusals

    def _charge_nodes(
        self, ctx: Context, session: Session, growths: Collection[Growth]
    ) -> bool:
        """Lock the nodes and add the growths to their fullness; return False if it must be read.

        If it turns out not to fit, the session's next statement raises ``TransactionConflict``,
        and the next attempt reads it.
        """
        if any(growth.bound.user_deltas for growth in growths):
            return False  # what users use is read
        charges = fullness.add_charges(growth.bound.charges for growth in growths)
        if (charges is None or not self._nodes.keep_fullness(ctx)
                or not self._allowances.take(charges)):
            return False
        self._nodes.charge_later(
            session, charges, lambda: self._allowances.forget(charges))
        return True

    def _set_fullness(
        self, ctx: Context, session: Session, growths: Mapping[int, Growth],
        refusals: Collection[int], used: Totals,
    ) -> None:
        """Set the fullness of nodes that are locked, below which usage was read.

        Beside processes of versions that do not know it, nobody relies on it.

        :param growths: by the positions of their writes, as ``refusals``.
        """
        charges = fullness.add_charges(
            growth.bound.charges if position not in refusals else claim_nothing(growth)
            for position, growth in growths.items())
        if not charges:
            return
        measured = {
            row_id: Charge(charge.limits, charge.limits.measure(used) + charge.part)
            for row_id, charge in charges.items()}
        self._nodes.set_fullness_later(session, measured)
        if self._nodes.keep_fullness(ctx):
            self._allowances.grant(measured)

    def _lock_nodes(
        self, session: Session, growths: Iterable[Growth],
        grown_limits: Iterable[PreparedLimits],
    ) -> None:
        """Lock the nodes that bind growths, which makes their fullness unknown.

        :param grown_limits: the limits of owners whose usage grows without being judged. All of
            their nodes are locked, so that no claim beside the write sets a fullness without it.
        """
        node_ids: dict[str, int] = {}
        for growth in growths:
            node_ids |= growth.bound.node_ids
        for limits in grown_limits:
            node_ids |= limits.node_ids
        # The ids of rows were derived from limits.
        self._nodes.lock_to_grow_later(session, node_ids, self._decisions.forget)

    def _judge(
        self, ctx: Context, growth: Growth, usage: _UsageSoFar
    ) -> errors.QuotaExceeded | None:
        """Return the refusal of a write, or None."""
        exceeded_limits = [*self._exceeded_by_projects(growth, usage),
                           *self._exceeded_by_users(ctx, growth, usage.changes)]
        if not exceeded_limits:
            if self._record_grants:
                recheck_order.record_acceptance(
                    growth.write.session, growth.bound.node_ids.values(),
                    [write.consumer_uuid for write in growth.write.writes if write.allocations])
            metrics.count_decision(self._mode, "allowed")
            return None
        refusal = errors.QuotaExceeded(exceeded_limits)
        if self._mode == "enforce":
            metrics.count_decision(self._mode, "refused")
            return refusal
        metrics.count_decision(self._mode, "would_be_refused")
        LOG.warning("quota guard (audit): would be refused: %s", refusal)
        return None

    def _read_usage(
        self, ctx: Context, session: Session, growths: Sequence[Growth],
        project_limits: Sequence[ProjectLimits],
    ) -> Totals:
        """Return the usage of all projects that count against limits of the growths.

        The revision of limits is read even if none seems to bind, because one may by now.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        rows: set[ProjectRows] = set()
        for growth in growths:
            if growth.limits.rows is None:
                session.flush()  # the index is read on other connections, under the locks
                return self._read_index(ctx, project_limits)
            rows.add(growth.limits.rows)
        return self._read_locked_usage(session, rows, project_limits)

    def _read_index(
        self, ctx: Context, project_limits: Sequence[ProjectLimits]
    ) -> Totals:
        decisions = self._decisions
        usages = decisions.read_usages_under_locks(ctx)
        if not all(decisions.is_current(limits, usages) for limits in project_limits):
            raise TransactionConflict
        return usages

    def _read_locked_usage(
        self, session: Session, rows: Collection[ProjectRows],
        project_limits: Sequence[ProjectLimits],
    ) -> Totals:
        try:
            usage = locked_usage.read(session, rows)
        except TransactionConflict:
            self._owners.forget_projects()
            self._decisions.forget()  # the ids of rows were derived from limits
            raise
        if not all(self._decisions.matches_state(limits, usage.revision)
                   for limits in project_limits):
            self._decisions.forget()
            raise TransactionConflict
        return usage

    def _exceeded_by_projects(
        self, growth: Growth, usage: _UsageSoFar
    ) -> list[ExceededLimit]:
        # Usually nothing is near a limit, and one sum for each resource shows it.
        rows = growth.limits.rows
        if rows is not None and usage.is_positive and not any(
                amounts.is_over(
                    delta.lowest,
                    sum([usage.compute_most(rows.projects, unit) for unit in delta.units]),
                    delta.most)
                for delta in growth.bound.deltas):
            return []
        # Several projects of the write may exceed the same limit together.
        return list(dict.fromkeys(
            ExceededLimit(
                excess.binding.node_id, excess.resource_name, excess.binding.scope,
                excess.binding.source, excess.binding.limit, excess.usage, excess.delta)
            for excess in self._decisions.judge(growth.bound.deltas, add_up(usage))))

    def _exceeded_by_users(
        self, ctx: Context, growth: Growth, earlier: usage_delta.NamedChanges
    ) -> Iterator[ExceededLimit]:
        for (project_id, user_id), user_deltas in growth.bound.user_deltas.items():
            used = project_usage.read(
                ctx, [project_id], user_id=user_id, moves_once=True).get(project_id, {})
            for name, delta in sorted(user_deltas.items()):
                limit = growth.limits.users_limits[project_id, user_id][name]
                units = self._decisions.resources.units(name)
                used_now = sum(used.get(unit, 0) for unit in units) + earlier.sum_of_user(
                    growth.write, project_id, user_id, units)
                if amounts.is_over(limit, used_now, delta):
                    yield ExceededLimit(
                        project_id, name, "user", "set", limit, used_now, delta, user_id)


class _UsageSoFar:
    """What projects use, with the writes of the transaction that were decided already.

    :ivar changes: of these writes, unless they are refused.
    :ivar is_positive: whether projects together are known to have used at least as much as some
        of them.
    """

    def __init__(self, before: Totals, changes: usage_delta.NamedChanges) -> None:
        self._before = before
        self.changes = changes
        self.is_positive = isinstance(before, LockedUsage) and before.is_positive
        #: {a set of projects: those in it whose usage the writes change}
        self._changed: dict[ProjectSet, frozenset[str]] = {}

    def total(self, projects: ProjectSet, resource_class: str) -> int:
        """Return what some projects use of a resource class, or of CONSUMERS, together."""
        used = self._before.total(projects, resource_class)
        if not self.changes.projects:
            return used
        return used + self.changes.sum_of_projects(
            self._find_changed(projects), resource_class)

    def compute_most(self, projects: ProjectSet, resource_class: str) -> int:
        """Return what some projects use at most, each alone or any of them together."""
        used = self._before.total(projects, resource_class)
        if not self.changes.projects:
            return used
        return used + self.changes.sum_of_growths(
            self._find_changed(projects), resource_class)

    def _find_changed(self, projects: ProjectSet) -> frozenset[str]:
        changed = self._changed.get(projects)
        if changed is None:
            changed = self._changed[projects] = self.changes.projects.intersection(
                projects.project_ids)
        return changed


@dataclasses.dataclass(frozen=True, slots=True)
class _Reshape(Check):
    """A reshape is never refused, but may let usage grow.

    :ivar limits: those that bind its owners; None: they are not known, or nobody keeps the
        fullness of their nodes.
    """

    limits: PreparedLimits | None


def _list_unjudged_limits(
    checks: Sequence[Check], writes: Sequence[PlannedWrite]
) -> list[PreparedLimits | None]:
    """Return the limits of writes that let usage grow by which the guard does not decide.

    :returns: one for each such write; None: they are not known.
    """
    return [_get_limits(check) for check, write in zip(checks, writes, strict=True)
            if _grows_unjudged(check, write)]


def _grows_unjudged(check: Check, write: PlannedWrite) -> bool:
    """Say whether usage grows by which the guard does not decide."""
    if isinstance(check, _Reshape):
        return any(change > 0 for change in usage_delta.find_changes(write.plan).values())
    return usage_delta.grows_unjudged(write.plan)


def _get_limits(check: Check) -> PreparedLimits | None:
    """Return the limits that a check has."""
    if isinstance(check, _Reshape):
        return check.limits
    return check if isinstance(check, PreparedLimits) else None
