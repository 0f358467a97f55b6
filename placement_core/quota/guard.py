"""The guard: enforces limits on growing usage, inside the transaction that makes it grow.

So there is no race and no re-check: of claims that count against the same limit, one
decides while the others wait, and it sees all that was committed before.
Source: design §5, requirement Q9.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from placement_core import amounts, errors as core_errors, metrics
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict
from placement_core.placement.allocations import usage_delta
from placement_core.placement.allocations.gates import Check, Gate, PlannedWrite, WriteRequest
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.allocations.usage_delta import Amounts
from placement_core.placement.usage import project_usage
from placement_core.quota import errors, locked_usage, recheck_order
from placement_core.quota.decisions import Decisions, ProjectLimits, Used
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.nodes import LimitNodes
from placement_core.quota.records import ExceededLimit

LOG = logging.getLogger(__name__)

Mode = Literal["audit", "enforce"]

#: (project id, user id)
_User = tuple[str, str]


class QuotaGuard(Gate):
    """Enforces limits on every write of allocations, except reshapes."""

    def __init__(
        self, decisions: Decisions, nodes: LimitNodes, source: LimitSource, mode: Mode, *,
        owners: Owners, notes: bool = False,
    ) -> None:
        """Make it for all writes.

        :param owners: remembers the ids of projects.
        :param notes: record what is granted for re-checks, because others write unguarded.
        """
        self._decisions = decisions
        self._nodes = nodes
        self._source = source
        self._mode = mode
        self._notes = notes
        self._owners = owners or Owners()

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Fetch what binds the projects, and insert the rows that will be locked.

        :raises errors.Unavailable: limits or the catalog are not known now; an audit
            lets the write pass then.
        """
        writes = [write for write in request.writes if write.allocations]
        if not writes or request.inventories is not None:
            return Check()  # a write that shrinks or reshapes is never refused
        try:
            return _QuotaCheck(
                self._decisions, self._nodes, self._mode,
                [write.consumer_uuid for write in writes] if self._notes else [],
                self._fetch(ctx, {(write.project_id, write.user_id) for write in writes}),
                self._owners)
        except TransactionConflict:
            raise
        except core_errors.Unavailable as error:
            if self._mode == "enforce":
                raise
            metrics.count_decision(self._mode, "unknown")
            LOG.warning("quota guard (audit): not known whether it would be refused: %s", error)
        return Check()

    def _fetch(self, ctx: Context, owners: Collection[_User]) -> _PreparedLimits:
        decisions = self._decisions
        key = decisions.service_key(ctx, self._source.service_type, self._source.region_id)
        project_limits: dict[str, ProjectLimits] = {}
        of_users: dict[_User, Mapping[str, Amount]] = {}
        for project_id, user_id in sorted(owners):
            project_limits[project_id] = decisions.project_limits(ctx, project_id, key)
            user_limits = decisions.user_limits(
                ctx, project_id, user_id, key, project_limits[project_id].revision)
            if user_limits:
                of_users[project_id, user_id] = user_limits
        counted = {
            project_id for limits in project_limits.values()
            for project_id in itertools.chain(
                (node.id for node in limits.lineage),
                *(subtree.project_ids for subtree in limits.subtrees.values()))}
        project_ids = None if len(counted) > locked_usage.MOST_PROJECTS else (
            self._owners.project_ids(ctx, counted))
        node_ids = self._nodes.ensure(ctx, {
            *project_limits, *(
                node_id for limits in project_limits.values()
                for node_id in decisions.bound_nodes(limits))})
        return _PreparedLimits(project_limits, of_users, node_ids, project_ids)


@dataclasses.dataclass(frozen=True, slots=True)
class _PreparedLimits:
    """What binds the owners of some writes.

    :ivar project_limits: {project: what binds it}.
    :ivar users: {user: {resource name: limit}}, of those that have limits.
    :ivar node_ids: {limit node: the id of its row}.
    :ivar project_ids: the same of the projects that count against the limits; None: they
        are too many for one statement.
    """

    project_limits: Mapping[str, ProjectLimits]
    users: Mapping[_User, Mapping[str, Amount]]
    node_ids: Mapping[str, int]
    project_ids: Mapping[str, int] | None


class _QuotaCheck(Check):
    """The guard's part in one attempt."""

    def __init__(
        self, decisions: Decisions, nodes: LimitNodes, mode: Mode, noted: Sequence[str],
        prepared: _PreparedLimits, owners: Owners,
    ) -> None:
        self._decisions = decisions
        self._nodes = nodes
        self._owners = owners
        self._mode = mode
        #: Consumers that are recorded for re-checks.
        self._noted = noted
        self._project_limits = prepared.project_limits
        self._users = prepared.users
        self._node_ids = prepared.node_ids
        self._project_ids = prepared.project_ids

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Refuse a write that exceeds a limit.

        :raises errors.QuotaExceeded: naming every limit that it exceeds.
        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        growth = usage_delta.measure(write)
        if not (growth.projects or growth.users):
            return
        deltas = {
            project_id: self._deltas(
                self._decisions.names(self._project_limits[project_id], changes), changes)
            for project_id, changes in growth.projects.items()}
        of_users = {
            user: self._deltas(self._users[user], changes)
            for user, changes in growth.users.items() if user in self._users}
        node_ids = {node_id: self._node_ids[node_id]
                    for node_id in self._bound_nodes(deltas, of_users)}
        if self._mode == "enforce":
            self._nodes.lock(write.session, node_ids)
        used = self._used(ctx, write.session, deltas)
        exceeded_limits = [*self._of_projects(used, deltas), *self._of_users(ctx, of_users)]
        if exceeded_limits:
            self._refuse(errors.QuotaExceeded(exceeded_limits))
            return
        if self._noted:
            recheck_order.accept(write.session, node_ids.values(), self._noted)
        metrics.count_decision(self._mode, "allowed")

    def _refuse(self, refusal: errors.QuotaExceeded) -> None:
        """Refuse a write, or log that it would be refused."""
        if self._mode == "enforce":
            metrics.count_decision(self._mode, "refused")
            raise refusal
        metrics.count_decision(self._mode, "would_be_refused")
        LOG.warning("quota guard (audit): would be refused: %s", refusal)

    def _deltas(self, names: Collection[str], growth: Amounts) -> dict[str, int]:
        """Return how much each resource grows, by name; only those that do."""
        deltas = {}
        resources = self._decisions.resources
        for name in filter(resources.guarded, names):
            delta = sum(growth.get(unit, 0) for unit in resources.units(name))
            if delta > 0:
                deltas[name] = delta
        return deltas

    def _bound_nodes(
        self, deltas: Mapping[str, Mapping[str, int]], of_users: Mapping[_User, Mapping[str, int]]
    ) -> set[str]:
        """Return the nodes with a finite limit on something that grows."""
        node_ids = {
            binding.node_id for project_id, of_project in deltas.items() for name in of_project
            for binding in self._decisions.bindings(self._project_limits[project_id], name)}
        return node_ids | {
            project_id for (project_id, _), of_user in of_users.items() if of_user}

    def _used(
        self, ctx: Context, session: Session, deltas: Mapping[str, Mapping[str, int]]
    ) -> Callable[[ProjectLimits], Used]:
        """Return a function that looks up what counts against the limits of each project.

        The state of limits is read even where none seems to bind: by now one may.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        if self._project_ids is None:
            return self._indexed_usage(ctx)
        counted = {
            project for project_id, of_project in deltas.items() for name in of_project
            for binding in self._decisions.bindings(self._project_limits[project_id], name)
            for project in self._project_limits[project_id].counted(binding).project_ids}
        return self._locked_usage(ctx, session, {
            name: id_ for name, id_ in self._project_ids.items() if name in counted})

    def _indexed_usage(self, ctx: Context) -> Callable[[ProjectLimits], Used]:
        decisions = self._decisions
        usages = decisions.present_under_locks(ctx)
        if not all(decisions.is_current(limits, usages)
                   for limits in self._project_limits.values()):
            raise TransactionConflict
        return lambda limits: decisions.used(usages, limits)

    def _locked_usage(
        self, ctx: Context, session: Session, project_ids: Mapping[str, int]
    ) -> Callable[[ProjectLimits], Used]:
        try:
            state, used = locked_usage.read(session, project_ids)
        except TransactionConflict:
            self._owners.forget_projects()
            raise
        if not all(self._decisions.is_current_in(limits, state)
                   for limits in self._project_limits.values()):
            self._decisions.forget()
            raise TransactionConflict
        return lambda limits: lambda binding, units: sum(
            used.get((project, unit), 0)
            for project in limits.counted(binding).project_ids for unit in units)

    def _of_projects(
        self, used: Callable[[ProjectLimits], Used], deltas: Mapping[str, Mapping[str, int]]
    ) -> Iterator[ExceededLimit]:
        for project_id, of_project in deltas.items():
            limits = self._project_limits[project_id]
            for excess in self._decisions.judge(limits, of_project, used(limits)):
                yield ExceededLimit(
                    excess.binding.node_id, excess.resource_name, excess.binding.scope,
                    excess.binding.source, excess.binding.limit, excess.usage, excess.delta)

    def _of_users(
        self, ctx: Context, deltas: Mapping[_User, Mapping[str, int]]
    ) -> Iterator[ExceededLimit]:
        for (project_id, user_id), of_user in deltas.items():
            if not of_user:
                continue
            used = project_usage.read(
                ctx, [project_id], user_id=user_id, moves_once=True).get(project_id, {})
            for name, delta in sorted(of_user.items()):
                limit = self._users[project_id, user_id][name]
                used_now = sum(used.get(unit, 0) for unit in self._decisions.resources.units(name))
                if amounts.is_over(limit, used_now, delta):
                    yield ExceededLimit(
                        project_id, name, "user", "set", limit, used_now, delta, user_id)
