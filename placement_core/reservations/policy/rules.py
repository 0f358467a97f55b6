"""Rules of the site that leases have to keep: how long, how far ahead, how much.

A change is held to them where it asks for more than there is: what shrinks, or is only
renamed, is never refused, though the rules were changed since the lease was made.
Source: spec blazar §4 (enforcement) and §5, seed 003 (quota); differs: horizon and
budgets are the service's own.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import db, errors
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import PreparedRead, clock
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES
from placement_core.plugin_api.enforcement import Binding
from placement_core.plugin_api.reservations import Share, Window
from placement_core.quota.decisions import Bounds, Decisions
from placement_core.quota.guard import Rules
from placement_core.quota.records import Overrun
from placement_core.reservations.errors import OverBudget, OverQuota, PolicyRefused
from placement_core.reservations.policy import budgets
from placement_core.reservations.policy.external_service import ExternalService
from placement_core.reservations.records import Lease, NewLease

#: Plans a lease as of now and promises nothing: what each reservation would hold; None:
#: nothing would change.
PlanShares = Callable[[], Sequence[Sequence[Share]] | None]

_DAY = 86_400
#: So many projects' bounds are kept; beyond that they are made anew.
_MOST_KEPT = 4096
_NOW = PreparedRead(sa.select(clock.now().label("now")))

#: What an instance of ``virtual:instance`` takes: {unit of limits: field}.
_FIELDS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a lease is judged by inside of the transaction that admits it.

    Limits and the tree of projects are as they were just before.

    :ivar bindings: {budget: the bounds on it}, of those that bind the project.
    :ivar since: the second from which on leases count.
    :ivar lease_id: of the lease that is changed.
    """

    decisions: Decisions
    bounds: Bounds
    bindings: Mapping[str, Sequence[Binding]]
    since: int
    lease_id: str | None

    def decide(
        self, ctx: Context, window: Window, shares: Sequence[Sequence[Share]]
    ) -> None:
        """Judge what a lease would hold.

        The pool's row is taken, so what other leases hold does not change meanwhile.

        :param shares: of each of its reservations.
        :raises OverBudget: naming every budget that is exceeded.
        """
        if not self.bindings:
            return
        counted = {
            (binding.node_id, binding.scope): self.bounds.counted(binding).project_ids
            for bindings in self.bindings.values() for binding in bindings}
        with db.read_once(ctx) as session:
            held, own = budgets.read_sums(
                session, set().union(*counted.values()), self.since, self.lease_id)
        asked = budgets.sum_shares(itertools.chain.from_iterable(shares), window, self.since)
        overruns = [
            overrun for name, bindings in self.bindings.items() if asked[name] > own[name]
            for overrun in self._overruns(name, bindings, asked[name] - own[name], {
                key: sum(held[project][name] for project in projects if project in held)
                for key, projects in counted.items()})]
        if overruns:
            raise OverBudget(overruns)

    def _overruns(
        self, name: str, bindings: Sequence[Binding], more: int, used: Mapping[Any, int]
    ) -> list[Overrun]:
        unit = budgets.BUDGETS[name].unit
        exact = [dataclasses.replace(binding, limit=binding.limit * unit) for binding in bindings]
        return [
            Overrun(excess.binding.node_id, name, excess.binding.scope, excess.binding.source,
                    excess.binding.limit // unit, _units(excess.usage, unit),
                    _units(more, unit))
            for excess in self.decisions.model.judge(name, exact, used, more)]


class _BoundsCache:
    """What binds projects, while limits and catalog are as they were at a revision."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.bounds: dict[str, Bounds] = {}


class LeaseRules:
    """What every lease is judged by before it is admitted or changed.

    Used from any thread.
    """

    def __init__(self, conf: cfg.ConfigOpts, decisions: Decisions, rules: Rules) -> None:
        """Take the options.

        :param rules: whose limits leases are held to.
        :raises errors.ConfigurationError: some of them make no sense.
        """
        self._decisions = decisions
        self._rules = rules
        self._options = conf.reservations
        self._kept = _BoundsCache("")
        self._enforcement = conf.enforcement
        self._external = ExternalService(conf)
        checks = {"MaxLeaseDurationFilter": self._check_duration,
                  "ExternalServiceFilter": self._ask}
        unknown = [name for name in conf.enforcement.enabled_filters if name not in checks]
        if unknown:
            raise errors.ConfigurationError(
                f"[enforcement] enabled_filters: {', '.join(unknown)}: expected some of "
                f"{', '.join(checks)}")
        self._checks = [checks[name] for name in conf.enforcement.enabled_filters]
        #: Whether any rule but budgets needs the present.
        self._timed = (
            conf.reservations.max_days_ahead != -1 or conf.enforcement.max_lease_duration != -1
            or self._external.asks)
        _require_history(conf)

    def prepare(
        self, ctx: Context, asked: NewLease, before: Lease | None = None, *,
        plan: PlanShares,
    ) -> Judgement:
        """Judge what needs no plan, and ask others, outside of the transaction.

        :param asked: the lease as it shall be, with all fields of its reservations.
        :param before: as it is, for a change.
        :param plan: called where an external service wants to know which hosts; what it
            raises is raised here.
        :raises PolicyRefused:
        :raises errors.Unavailable: limits, the catalog or an external service cannot be
            asked now.
        """
        bounds = self._bounds(ctx, asked.project_id)
        # Only what is registered: [quota] unregistered is about what placement allocates.
        bindings = {
            name: found for name in budgets.BUDGETS if name in bounds.limits.defaults
            and (found := self._decisions.bindings(bounds, name))}
        if self._options.check_quota:
            self._check_quota(bounds, asked, before)
        since = 0
        if bindings or self._timed:
            now = _present(ctx)
            since = int(now.timestamp()) - self._options.budget_days * _DAY
            self._check_horizon(now, asked.end_at, before)
            asked = dataclasses.replace(asked, start_at=asked.start_at or now)
            for check in self._checks:
                check(ctx, asked, before, plan)
        return Judgement(
            self._decisions, bounds, bindings, since, None if before is None else before.id)

    def ended(self, ctx: Context, lease: Lease) -> None:
        """Tell others, outside of any transaction, that a lease has ended.

        Once, and without any error: whoever has to know for certain reads the notices.
        """
        if self._ask in self._checks:
            self._external.ended(ctx, lease)

    def _bounds(self, ctx: Context, project_id: str) -> Bounds:
        """Return what binds a project now."""
        decisions, rules = self._decisions, self._rules
        if not decisions.cacheable:
            return decisions.bounds_anew(ctx, project_id, rules.service_type, rules.region_id)
        # Every lease and every claim moves the change log; what binds moves seldom.
        revision = revisions.ask(ctx, revisions.LIMITS)
        kept = self._kept
        if kept.revision != revision or len(kept.bounds) >= _MOST_KEPT:
            kept = self._kept = _BoundsCache(revision)
        if project_id not in kept.bounds:
            kept.bounds[project_id] = decisions.bounds_anew(
                ctx, project_id, rules.service_type, rules.region_id)
        return kept.bounds[project_id]

    def _check_horizon(
        self, now: datetime.datetime, end_at: datetime.datetime, before: Lease | None
    ) -> None:
        days = self._options.max_days_ahead
        if days == -1 or (before is not None and end_at <= before.end_at):
            return
        latest = now + datetime.timedelta(days=days)
        if end_at > latest:
            raise PolicyRefused(
                f"A lease ends within {days} days from now, that is until "
                f"{latest:%Y-%m-%d %H:%M}.")

    def _check_quota(self, bounds: Bounds, asked: NewLease, before: Lease | None) -> None:
        """Hold what is reserved for instances against limits, not against what is left.

        :raises OverQuota: naming every limit that is too small.
        """
        decisions, resources = self._decisions, self._decisions.resources
        wanted = _reserved(
            (reservation.resource_type, reservation.given) for reservation in asked.reservations)
        had = _reserved([] if before is None else (
            (reservation.resource_type, reservation.fields)
            for reservation in before.reservations))
        overruns = []
        for name in filter(resources.knows, decisions.names(bounds, wanted.keys())):
            units = resources.units(name)
            amount = sum(wanted.get(unit, 0) for unit in units)
            if amount <= sum(had.get(unit, 0) for unit in units):
                continue
            bindings = decisions.bindings(bounds, name)
            unused = {(binding.node_id, binding.scope): 0 for binding in bindings}
            overruns += (
                Overrun(excess.binding.node_id, name, excess.binding.scope,
                        excess.binding.source, excess.binding.limit, 0, amount)
                for excess in decisions.model.judge(name, bindings, unused, amount))
        if overruns:
            raise OverQuota(overruns)

    def _check_duration(
        self, ctx: Context, asked: NewLease, before: Lease | None, plan: PlanShares
    ) -> None:
        options = self._enforcement
        most = options.max_lease_duration
        if most == -1 or asked.project_id in options.max_lease_duration_exempt_project_ids:
            return
        assert asked.start_at is not None  # "now" was replaced
        lasts = asked.end_at - asked.start_at
        if before is not None and lasts <= before.end_at - before.start_at:
            return
        if lasts > datetime.timedelta(seconds=most):
            raise PolicyRefused(
                f"The lease would last {int(lasts.total_seconds())} seconds; it may last "
                f"{most}.")

    def _ask(
        self, ctx: Context, asked: NewLease, before: Lease | None, plan: PlanShares
    ) -> None:
        self._external.check(ctx, asked, before, plan)


def _present(ctx: Context) -> datetime.datetime:
    [(now,)] = db.retry_writes(_NOW.fetch)(ctx)
    at: datetime.datetime = now
    return at.replace(microsecond=0, tzinfo=datetime.UTC)


def _require_history(conf: cfg.ConfigOpts) -> None:
    """Check that leases are kept for as long as others count with them.

    :raises errors.ConfigurationError: they are not.
    """
    options = conf.reservations
    for name, days in (("budget_days", options.budget_days),
                       ("cleaning_time", -(-options.cleaning_time // (24 * 60)))):
        if options.keep_days < days:
            raise errors.ConfigurationError(
                f"[reservations] keep_days = {options.keep_days}: expected at least {days}, "
                f"because of {name}")


def _reserved(reservations: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
    """Return how much of what limits count is reserved for instances: {unit: amount}."""
    found: dict[str, int] = {}
    for resource_type, fields in reservations:
        if resource_type == "virtual:instance":
            amount = int(fields["amount"])
            taken = {unit: amount * int(fields[field]) for unit, field in _FIELDS.items()}
            for unit, more in {**taken, CONSUMERS: amount, INSTANCES: amount}.items():
                found[unit] = found.get(unit, 0) + more
    return found


def _units(amount: int, unit: int) -> int:
    """Return an amount in units, rounded up."""
    return -(-amount // unit)
