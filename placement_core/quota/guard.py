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
from placement_core.db import TransactionConflict
from placement_core.placement import consumers, totals, usage_index
from placement_core.placement.growth import Amounts, Growth
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.quota import errors, nodes, rivals, settled
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


class QuotaGuard:
    """Judges one write of allocations (``allocations.Guard``)."""

    def __init__(
        self, decisions: Decisions, rules: Rules, mode: Mode, *, notes: bool = False
    ) -> None:
        """Make it for one write.

        :param notes: tell re-checks of what is granted: others write unguarded.
        """
        self._decisions = decisions
        self._rules = rules
        self._mode = mode
        self._notes = notes
        self._uuids: list[str] = []
        self._bounds: dict[str, Bounds] = {}
        self._users: dict[_User, Mapping[str, Amount]] = {}
        self._node_ids: dict[str, int] = {}
        self._undecided = False
        #: Of the projects that count against the bounds; None: they are too many to be read.
        self._project_ids: dict[str, int] | None = {}

    def prepare(self, ctx: Context, writes: Sequence[AllocationWrite]) -> None:
        """Fetch what binds the projects, and make the rows that will be taken.

        :raises errors.Unavailable: limits or the catalog are not known now; an audit
            refuses nothing for that, and decides nothing.
        """
        self._bounds, self._users, self._undecided = {}, {}, False
        self._uuids = [write.consumer_uuid for write in writes if write.allocations]
        owners = {(write.project_id, write.user_id) for write in writes if write.allocations}
        if not owners:
            return
        try:
            self._fetch(ctx, owners)
        except TransactionConflict:
            raise
        except core_errors.Unavailable as error:
            if self._mode == "enforce":
                raise
            self._undecided = True
            metrics.guard_decided(self._mode, "unknown")
            LOG.warning("quota guard (audit): not known whether it would be refused: %s", error)

    def _fetch(self, ctx: Context, owners: Collection[_User]) -> None:
        decisions = self._decisions
        key = decisions.service_key(ctx, self._rules.service_type, self._rules.region_id)
        for project_id, user_id in sorted(owners):
            bounds = self._bounds[project_id] = decisions.bounds(ctx, project_id, key)
            limits = decisions.user_limits(ctx, project_id, user_id, key, bounds.revision)
            if limits:
                self._users[project_id, user_id] = limits
        counted = {
            each for bounds in self._bounds.values()
            for each in itertools.chain((node.id for node in bounds.lineage),
                                        *(subtree.project_ids
                                          for subtree in bounds.subtrees.values()))}
        self._project_ids = None if len(counted) > settled.MOST_PROJECTS else (
            consumers.project_ids(ctx, counted))
        self._node_ids = nodes.ensure(ctx, {
            *self._bounds, *(node_id for bounds in self._bounds.values()
                             for node_id in decisions.bound_nodes(bounds))})

    def decide(self, ctx: Context, grown: Growth) -> None:
        """Refuse what exceeds a limit.

        :raises errors.QuotaExceeded: naming every limit that is.
        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        if self._undecided:
            return
        deltas = {
            project_id: self._deltas(
                self._decisions.names(self._bounds[project_id], more), more)
            for project_id, more in grown.projects.items()}
        of_users = {
            user: self._deltas(self._users[user], more)
            for user, more in grown.users.items() if user in self._users}
        held = {node_id: self._node_ids[node_id]
                for node_id in self._bound_nodes(deltas, of_users)}
        if self._mode == "enforce":
            assert ctx.session is not None  # called inside the claim's transaction
            nodes.hold(ctx, ctx.session, held)
        used = self._used(ctx, deltas)
        overruns = [*self._of_projects(used, deltas), *self._of_users(ctx, of_users)]
        if not overruns:
            if self._notes and ctx.session is not None:
                rivals.accept(ctx.session, held.values(), self._uuids)
            metrics.guard_decided(self._mode, "allowed")
            return
        refusal = errors.QuotaExceeded(overruns)
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
            delta = sum(more.get(usage_index.CONSUMERS if unit == CONSUMERS else unit, 0)
                        for unit in resources.units(name))
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
        self, ctx: Context, deltas: Mapping[str, Mapping[str, int]]
    ) -> Callable[[Bounds], Used]:
        """Return how to look up what counts against the bounds of each project.

        Also where nothing seems to bind: by now something may.

        :raises TransactionConflict: limits or the catalog changed since ``prepare``.
        """
        decisions, all_bounds = self._decisions, self._bounds.values()
        if self._project_ids is None:
            usages = decisions.settled(ctx)
            if not all(decisions.holds(each, usages) for each in all_bounds):
                raise TransactionConflict
            return lambda bounds: decisions.used(usages, bounds)
        assert ctx.session is not None  # called inside the claim's transaction
        counted = {
            each for project_id, grown in deltas.items() for name in grown
            for binding in decisions.bindings(self._bounds[project_id], name)
            for each in self._bounds[project_id].counted(binding).project_ids}
        try:
            state, of_projects = settled.read(ctx.session, {
                name: id_ for name, id_ in self._project_ids.items() if name in counted})
        except TransactionConflict:
            consumers.forget_projects(ctx.database)
            raise
        if not all(decisions.holds_in(each, state) for each in all_bounds):
            decisions.forget()
            raise TransactionConflict
        return lambda bounds: lambda binding, units: sum(
            of_projects.get((each, unit), 0)
            for each in bounds.counted(binding).project_ids for unit in units)

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
            used = totals.read(
                ctx, [project_id], user_id=user_id, moves_once=True).get(project_id, {})
            for name, delta in sorted(grown.items()):
                limit = self._users[project_id, user_id][name]
                now = sum(used.get(unit, 0) for unit in self._decisions.resources.units(name))
                if amounts.is_over(limit, now, delta):
                    yield Overrun(project_id, name, "user", "set", limit, now, delta, user_id)
