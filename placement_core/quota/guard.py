"""The quota guard: enforces limits on growing usage in the transaction that makes it grow.

So there is no race and no re-check: of the claims that count against the same limit, one is
decided while the others wait, and its decision sees all that was committed before.
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
from placement_core.quota.decisions import Decisions, ProjectLimits, UsageLookup
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

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Fetch the limits that bind the projects, and insert the rows that will be locked.

        :raises errors.Unavailable: limits or the catalog are not known now; in mode
            ``audit`` the write passes then.
        """
        writes = [write for write in request.writes if write.allocations]
        if not writes or request.inventories is not None:
            return Check()  # writes that shrink or reshape usage are never refused
        try:
            return _QuotaCheck(
                self._decisions, self._nodes, self._mode,
                [write.consumer_uuid for write in writes] if self._record_grants else [],
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
        users_limits: dict[_User, Mapping[str, Amount]] = {}
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
        project_ids = None if len(counted) > locked_usage.MOST_PROJECTS else (
            self._owners.project_ids(ctx, counted))
        node_ids = self._nodes.ensure(ctx, {
            *project_limits, *(
                node_id for limits in project_limits.values()
                for node_id in decisions.bound_nodes(limits))})
        return _PreparedLimits(project_limits, users_limits, node_ids, project_ids)


@dataclasses.dataclass(frozen=True, slots=True)
class _PreparedLimits:
    """The limits that bind the owners of some writes.

    :ivar project_limits: {project: the limits that bind it}.
    :ivar users_limits: {user: {resource name: limit}}, for users that have limits.
    :ivar node_ids: {limit node: the id of its row}.
    :ivar project_ids: {project: the id of its row}, for the projects that count against the
        limits; None: they are too many for one statement.
    """

    project_limits: Mapping[str, ProjectLimits]
    users_limits: Mapping[_User, Mapping[str, Amount]]
    node_ids: Mapping[str, int]
    project_ids: Mapping[str, int] | None


class _QuotaCheck(Check):
    """The guard's part in one attempt."""

    def __init__(
        self, decisions: Decisions, nodes: LimitNodes, mode: Mode, recorded: Sequence[str],
        prepared: _PreparedLimits, owners: Owners,
    ) -> None:
        self._decisions = decisions
        self._nodes = nodes
        self._owners = owners
        self._mode = mode
        #: The consumers to record as accepted, for re-checks.
        self._recorded = recorded
        self._project_limits = prepared.project_limits
        self._users_limits = prepared.users_limits
        self._node_ids = prepared.node_ids
        self._project_ids = prepared.project_ids

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Refuse a write that exceeds a limit.

        :raises errors.QuotaExceeded: with every limit that it exceeds.
        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        growth = usage_delta.measure(write)
        if not (growth.projects or growth.users):
            return
        deltas = {
            project_id: self._deltas(
                self._decisions.limit_names(self._project_limits[project_id], changes), changes)
            for project_id, changes in growth.projects.items()}
        user_deltas = {
            user: self._deltas(self._users_limits[user], changes)
            for user, changes in growth.users.items() if user in self._users_limits}
        node_ids = {node_id: self._node_ids[node_id]
                    for node_id in self._bound_nodes(deltas, user_deltas)}
        if self._mode == "enforce":
            self._nodes.lock(write.session, node_ids)
        get_lookup = self._read_usage(ctx, write.session, deltas)
        exceeded_limits = [*self._exceeded_by_projects(get_lookup, deltas),
                           *self._exceeded_by_users(ctx, user_deltas)]
        if exceeded_limits:
            self._refuse(errors.QuotaExceeded(exceeded_limits))
            return
        if self._recorded:
            recheck_order.record_acceptance(write.session, node_ids.values(), self._recorded)
        metrics.count_decision(self._mode, "allowed")

    def _refuse(self, refusal: errors.QuotaExceeded) -> None:
        """Refuse a write, or log that it would be refused."""
        if self._mode == "enforce":
            metrics.count_decision(self._mode, "refused")
            raise refusal
        metrics.count_decision(self._mode, "would_be_refused")
        LOG.warning("quota guard (audit): would be refused: %s", refusal)

    def _deltas(self, names: Collection[str], growth: Amounts) -> dict[str, int]:
        """Return how much each resource grows, by name; only resources that grow."""
        deltas = {}
        resources = self._decisions.resources
        for name in filter(resources.is_guarded, names):
            delta = sum(growth.get(unit, 0) for unit in resources.units(name))
            if delta > 0:
                deltas[name] = delta
        return deltas

    def _bound_nodes(
        self, deltas: Mapping[str, Mapping[str, int]],
        user_deltas: Mapping[_User, Mapping[str, int]],
    ) -> set[str]:
        """Return the nodes with a finite limit on something that grows."""
        node_ids = {
            binding.node_id for project_id, names in deltas.items() for name in names
            for binding in self._decisions.bindings(self._project_limits[project_id], name)}
        return node_ids | {
            project_id for (project_id, _), names in user_deltas.items() if names}

    def _read_usage(
        self, ctx: Context, session: Session, deltas: Mapping[str, Mapping[str, int]]
    ) -> Callable[[ProjectLimits], UsageLookup]:
        """Return a function that makes the usage lookup of each project.

        The revision of limits is read even if none seems to bind, because one may by now.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        if self._project_ids is None:
            return self._read_index(ctx)
        counted = {
            project for project_id, names in deltas.items() for name in names
            for binding in self._decisions.bindings(self._project_limits[project_id], name)
            for project in self._project_limits[project_id].counted_projects(binding).project_ids}
        return self._read_locked_usage(ctx, session, {
            name: id_ for name, id_ in self._project_ids.items() if name in counted})

    def _read_index(self, ctx: Context) -> Callable[[ProjectLimits], UsageLookup]:
        decisions = self._decisions
        usages = decisions.read_usages_under_locks(ctx)
        if not all(decisions.is_current(limits, usages)
                   for limits in self._project_limits.values()):
            raise TransactionConflict
        return lambda limits: decisions.make_usage_lookup(usages, limits)

    def _read_locked_usage(
        self, ctx: Context, session: Session, project_ids: Mapping[str, int]
    ) -> Callable[[ProjectLimits], UsageLookup]:
        try:
            state, used = locked_usage.read(session, project_ids)
        except TransactionConflict:
            self._owners.forget_projects()
            raise
        if not all(self._decisions.matches_state(limits, state)
                   for limits in self._project_limits.values()):
            self._decisions.forget()
            raise TransactionConflict
        return lambda limits: lambda binding, units: sum(
            used.get((project, unit), 0)
            for project in limits.counted_projects(binding).project_ids for unit in units)

    def _exceeded_by_projects(
        self, get_lookup: Callable[[ProjectLimits], UsageLookup],
        deltas: Mapping[str, Mapping[str, int]],
    ) -> Iterator[ExceededLimit]:
        for project_id, project_deltas in deltas.items():
            limits = self._project_limits[project_id]
            for excess in self._decisions.judge(limits, project_deltas, get_lookup(limits)):
                yield ExceededLimit(
                    excess.binding.node_id, excess.resource_name, excess.binding.scope,
                    excess.binding.source, excess.binding.limit, excess.usage, excess.delta)

    def _exceeded_by_users(
        self, ctx: Context, deltas: Mapping[_User, Mapping[str, int]]
    ) -> Iterator[ExceededLimit]:
        for (project_id, user_id), user_deltas in deltas.items():
            if not user_deltas:
                continue
            used = project_usage.read(
                ctx, [project_id], user_id=user_id, moves_once=True).get(project_id, {})
            for name, delta in sorted(user_deltas.items()):
                limit = self._users_limits[project_id, user_id][name]
                used_now = sum(used.get(unit, 0) for unit in self._decisions.resources.units(name))
                if amounts.is_over(limit, used_now, delta):
                    yield ExceededLimit(
                        project_id, name, "user", "set", limit, used_now, delta, user_id)
