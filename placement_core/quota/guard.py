"""The guard: holds what grows to the limits, inside the transaction that makes it grow.

So there is no race, no re-check, and nothing half made: of claims that count against
the same limit, one decides while the others wait, and it sees all that was committed
before. Source: design §5, requirement Q9.
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
from placement_core.placement.allocations import consumers, usage_delta
from placement_core.placement.allocations.gates import Check, Gate, PlannedWrite, WriteRequest
from placement_core.placement.allocations.usage_delta import Amounts
from placement_core.placement.usage import project_usage
from placement_core.quota import errors, locked_usage, nodes, recheck_order
from placement_core.quota.decisions import Bounds, Decisions, Used
from placement_core.quota.records import Overrun

LOG = logging.getLogger(__name__)

Mode = Literal["audit", "enforce"]

#: (project id, user id)
_User = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """Whose limits a guard holds claims to.

    :ivar service_type: a type of service in the catalog.
    :ivar region_id: None: it is not configured (``limit_sources``).
    """

    service_type: str
    region_id: str | None


class QuotaGuard(Gate):
    """Holds every write of allocations to the limits, except reshapes."""

    def __init__(
        self, decisions: Decisions, rules: Rules, mode: Mode, *, notes: bool = False
    ) -> None:
        """Make it for all writes.

        :param notes: tell re-checks of what is granted: others write unguarded.
        """
        self._decisions = decisions
        self._rules = rules
        self._mode = mode
        self._notes = notes

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Fetch what binds the projects, and make the rows that will be taken.

        :raises errors.Unavailable: limits or the catalog are not known now; an audit
            refuses nothing for that, and decides nothing.
        """
        writes = [write for write in request.writes if write.allocations]
        if not writes or request.inventories is not None:
            return Check()  # what shrinks or is reshaped is never refused
        try:
            return _QuotaCheck(
                self._decisions, self._mode,
                [write.consumer_uuid for write in writes] if self._notes else [],
                self._fetch(ctx, {(write.project_id, write.user_id) for write in writes}))
        except TransactionConflict:
            raise
        except core_errors.Unavailable as error:
            if self._mode == "enforce":
                raise
            metrics.guard_decided(self._mode, "unknown")
            LOG.warning("quota guard (audit): not known whether it would be refused: %s", error)
        return Check()

    def _fetch(self, ctx: Context, owners: Collection[_User]) -> _Binding:
        decisions = self._decisions
        key = decisions.service_key(ctx, self._rules.service_type, self._rules.region_id)
        bounds: dict[str, Bounds] = {}
        users: dict[_User, Mapping[str, Amount]] = {}
        for project_id, user_id in sorted(owners):
            bounds[project_id] = decisions.bounds(ctx, project_id, key)
            limits = decisions.user_limits(
                ctx, project_id, user_id, key, bounds[project_id].revision)
            if limits:
                users[project_id, user_id] = limits
        counted = {
            project_id for of_project in bounds.values()
            for project_id in itertools.chain(
                (node.id for node in of_project.lineage),
                *(subtree.project_ids for subtree in of_project.subtrees.values()))}
        project_ids = None if len(counted) > locked_usage.MOST_PROJECTS else (
            consumers.project_ids(ctx, counted))
        node_ids = nodes.ensure(ctx, {
            *bounds, *(node_id for of_project in bounds.values()
                       for node_id in decisions.bound_nodes(of_project))})
        return _Binding(bounds, users, node_ids, project_ids)


@dataclasses.dataclass(frozen=True, slots=True)
class _Binding:
    """What binds the owners of some writes.

    :ivar bounds: {project: its bounds}.
    :ivar users: {user: {resource name: limit}}, of those that have limits.
    :ivar node_ids: {limit node: the id of its row}.
    :ivar project_ids: the same of the projects that count against the bounds; None: they
        are too many to be read.
    """

    bounds: Mapping[str, Bounds]
    users: Mapping[_User, Mapping[str, Amount]]
    node_ids: Mapping[str, int]
    project_ids: Mapping[str, int] | None


class _QuotaCheck(Check):
    """The guard's part in one attempt."""

    def __init__(
        self, decisions: Decisions, mode: Mode, noted: Sequence[str], binding: _Binding
    ) -> None:
        self._decisions = decisions
        self._mode = mode
        #: Consumers that re-checks are told of.
        self._noted = noted
        self._bounds = binding.bounds
        self._users = binding.users
        self._node_ids = binding.node_ids
        self._project_ids = binding.project_ids

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Refuse what exceeds a limit.

        :raises errors.QuotaExceeded: naming every limit that is.
        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        more = usage_delta.measure(write)
        if not (more.projects or more.users):
            return
        deltas = {
            project_id: self._deltas(
                self._decisions.names(self._bounds[project_id], changes), changes)
            for project_id, changes in more.projects.items()}
        of_users = {
            user: self._deltas(self._users[user], changes)
            for user, changes in more.users.items() if user in self._users}
        node_ids = {node_id: self._node_ids[node_id]
                    for node_id in self._bound_nodes(deltas, of_users)}
        if self._mode == "enforce":
            nodes.hold(ctx, write.session, node_ids)
        used = self._used(ctx, write.session, deltas)
        overruns = [*self._of_projects(used, deltas), *self._of_users(ctx, of_users)]
        if overruns:
            self._refuse(errors.QuotaExceeded(overruns))
            return
        if self._noted:
            recheck_order.accept(write.session, node_ids.values(), self._noted)
        metrics.guard_decided(self._mode, "allowed")

    def _refuse(self, refusal: errors.QuotaExceeded) -> None:
        """Refuse a write, or say in the log that it would be."""
        if self._mode == "enforce":
            metrics.guard_decided(self._mode, "refused")
            raise refusal
        metrics.guard_decided(self._mode, "would_be_refused")
        LOG.warning("quota guard (audit): would be refused: %s", refusal)

    def _deltas(self, names: Collection[str], more: Amounts) -> dict[str, int]:
        """Return how much more is asked for, by resource name; only what grows."""
        grown = {}
        resources = self._decisions.resources
        for name in filter(resources.guarded, names):
            delta = sum(more.get(unit, 0) for unit in resources.units(name))
            if delta > 0:
                grown[name] = delta
        return grown

    def _bound_nodes(
        self, deltas: Mapping[str, Mapping[str, int]], of_users: Mapping[_User, Mapping[str, int]]
    ) -> set[str]:
        """Return the nodes with a finite limit on something that grows."""
        bound = {
            binding.node_id for project_id, grown in deltas.items() for name in grown
            for binding in self._decisions.bindings(self._bounds[project_id], name)}
        return bound | {project_id for (project_id, _), grown in of_users.items() if grown}

    def _used(
        self, ctx: Context, session: Session, deltas: Mapping[str, Mapping[str, int]]
    ) -> Callable[[Bounds], Used]:
        """Return how to look up what counts against the bounds of each project.

        Also where nothing seems to bind: by now something may.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        if self._project_ids is None:
            return self._indexed_usage(ctx)
        counted = {
            project for project_id, grown in deltas.items() for name in grown
            for binding in self._decisions.bindings(self._bounds[project_id], name)
            for project in self._bounds[project_id].counted(binding).project_ids}
        return self._locked_usage(ctx, session, {
            name: id_ for name, id_ in self._project_ids.items() if name in counted})

    def _indexed_usage(self, ctx: Context) -> Callable[[Bounds], Used]:
        decisions = self._decisions
        usages = decisions.present_under_locks(ctx)
        if not all(decisions.is_current(bounds, usages) for bounds in self._bounds.values()):
            raise TransactionConflict
        return lambda bounds: decisions.used(usages, bounds)

    def _locked_usage(
        self, ctx: Context, session: Session, project_ids: Mapping[str, int]
    ) -> Callable[[Bounds], Used]:
        try:
            state, used = locked_usage.read(session, project_ids)
        except TransactionConflict:
            consumers.forget_projects(ctx.database)
            raise
        if not all(self._decisions.is_current_in(bounds, state)
                   for bounds in self._bounds.values()):
            self._decisions.forget()
            raise TransactionConflict
        return lambda bounds: lambda binding, units: sum(
            used.get((project, unit), 0)
            for project in bounds.counted(binding).project_ids for unit in units)

    def _of_projects(
        self, used: Callable[[Bounds], Used], deltas: Mapping[str, Mapping[str, int]]
    ) -> Iterator[Overrun]:
        for project_id, grown in deltas.items():
            bounds = self._bounds[project_id]
            for excess in self._decisions.judge(bounds, grown, used(bounds)):
                yield Overrun(
                    excess.binding.node_id, excess.resource_name, excess.binding.scope,
                    excess.binding.source, excess.binding.limit, excess.usage, excess.delta)

    def _of_users(
        self, ctx: Context, deltas: Mapping[_User, Mapping[str, int]]
    ) -> Iterator[Overrun]:
        for (project_id, user_id), grown in deltas.items():
            if not grown:
                continue
            used = project_usage.read(
                ctx, [project_id], user_id=user_id, moves_once=True).get(project_id, {})
            for name, delta in sorted(grown.items()):
                limit = self._users[project_id, user_id][name]
                now = sum(used.get(unit, 0) for unit in self._decisions.resources.units(name))
                if amounts.is_over(limit, now, delta):
                    yield Overrun(project_id, name, "user", "set", limit, now, delta, user_id)
