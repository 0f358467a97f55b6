"""Rules of the site for leases: how long, how far ahead, how much.

A change is checked only where it asks for more than the lease has: a lease that shrinks, or is
only renamed, is never refused, even if the rules have changed since it was created.
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
from placement_core.caches import BoundedCache
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import PreparedRead, clock
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES
from placement_core.plugin_api.enforcement import Binding
from placement_core.plugin_api.reservations import Share, Window
from placement_core.quota.decisions import Decisions, ProjectLimits
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.records import ExceededLimit
from placement_core.reservations.errors import OverBudget, OverQuota, PolicyRefused
from placement_core.reservations.policy import budgets
from placement_core.reservations.policy.external_service import ExternalService
from placement_core.reservations.records import Lease, NewLease

#: Plans a lease as of now, and books nothing: returns the shares of each reservation; None:
#: nothing would change.
PlanShares = Callable[[], Sequence[Sequence[Share]] | None]

_DAY = 86_400
#: How many projects' bounds are cached.
_MOST_BOUNDS = 4096
_NOW = PreparedRead(sa.select(clock.now().label("now")))

#: The size of a slot of ``virtual:instance``: {unit of limits: field}.
_FIELDS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


@dataclasses.dataclass(frozen=True, slots=True)
class ExternalQuestion:
    """What the external service is asked about in one request, whose transaction may be repeated.

    :ivar plan: is called if the service is asked, which is sent the hosts; its exceptions are
        raised there.
    :ivar allowed: what the service has allowed: the lease as it was before the change, None for
        a new one. It is asked again only if the lease has changed meanwhile.
    """

    plan: PlanShares
    allowed: list[Lease | None] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """The check of budgets inside of the transaction that admits a lease.

    Limits and the tree of projects were read just before the transaction, which fails at its
    commit if they have changed since.

    :ivar bindings: {budget: the limits on it}, for the budgets that bind the project.
    :ivar since: leases count from this second on.
    :ivar lease_id: the id of the lease that is changed; None: it is new.
    """

    decisions: Decisions
    bounds: ProjectLimits
    bindings: Mapping[str, Sequence[Binding]]
    since: int
    lease_id: str | None

    def decide(
        self, ctx: Context, window: Window, shares: Sequence[Sequence[Share]], *,
        in_force: bool = False,
    ) -> None:
        """Check the shares that a lease would have against budgets.

        The pool's row is locked, so the shares of other leases do not change meanwhile.

        :param shares: the shares of each of its reservations, which it would have during
            ``window``.
        :param in_force: ``window`` is what is left of a lease in force: what it has held before
            is past, whatever it would have from now on.
        :raises OverBudget: naming every budget that is exceeded.
        """
        if self.bounds.state:
            assert ctx.session is not None  # the caller's
            revisions.depend_on_limits(ctx.session, self.bounds.state)
        if not self.bindings:
            return
        counted_projects = {
            (binding.node_id, binding.scope): self.bounds.counted_projects(binding).project_ids
            for bindings in self.bindings.values() for binding in bindings}
        with db.read_once(ctx) as session:
            usage, present = budgets.read_sums(
                session, set().union(*counted_projects.values()), self.since, self.lease_id,
                max(self.since, window.start) if in_force else self.since)
        needed = budgets.sum_shares(itertools.chain.from_iterable(shares), window, self.since)
        more = {name: needed[name] - present[name] for name in needed}
        exceeded_limits = [
            exceeded_limit for name, bindings in self.bindings.items() if more[name] > 0
            for exceeded_limit in self._find_exceeded_limits(name, bindings, more[name], {
                key: sum(usage[project][name] for project in projects if project in usage)
                for key, projects in counted_projects.items()})]
        if exceeded_limits:
            raise OverBudget(exceeded_limits)

    def _find_exceeded_limits(
        self, name: str, bindings: Sequence[Binding], more: int, used: Mapping[Any, int]
    ) -> list[ExceededLimit]:
        unit = budgets.BUDGETS[name].unit
        exact = [dataclasses.replace(binding, limit=binding.limit * unit) for binding in bindings]
        return [
            ExceededLimit(
                excess.binding.node_id, name, excess.binding.scope, excess.binding.source,
                excess.binding.limit // unit, _round_up(excess.usage, unit), _round_up(more, unit))
            for excess in self.decisions.model.judge(name, exact, used, more)]


class LeaseRules:
    """The rules that every lease must keep before it is admitted or changed.

    Thread-safe.
    """

    def __init__(self, conf: cfg.ConfigOpts, decisions: Decisions, rules: LimitSource) -> None:
        """Read the options.

        :param rules: the source of the limits for leases.
        :raises errors.ConfigurationError: an option is invalid.
        """
        self._decisions = decisions
        self._rules = rules
        self._options = conf.reservations
        #: {project: (revision of limits and catalog, limits read at that revision)}
        self._bounds_cache = BoundedCache[str, tuple[str, ProjectLimits]](_MOST_BOUNDS)
        self._enforcement = conf.enforcement
        self._external = ExternalService(conf)
        checks = {"MaxLeaseDurationFilter": self._check_duration,
                  "ExternalServiceFilter": self._ask_external_service}
        unknown = [name for name in conf.enforcement.enabled_filters if name not in checks]
        if unknown:
            raise errors.ConfigurationError(
                f"[enforcement] enabled_filters: {', '.join(unknown)}: expected some of "
                f"{', '.join(checks)}")
        self._checks = [checks[name] for name in conf.enforcement.enabled_filters]
        #: Whether any rule except budgets needs the present time.
        self._needs_time = (
            conf.reservations.max_days_ahead != -1 or conf.enforcement.max_lease_duration != -1
            or self._external.asks)
        _require_history(conf)

    @property
    def asks_external_service(self) -> bool:
        """Return whether the external service is asked before a lease is created."""
        return self._ask_external_service in self._checks and self._external.asks_about_new

    def prepare(
        self, ctx: Context, lease: NewLease, before: Lease | None = None, *,
        question: ExternalQuestion,
    ) -> AdmissionCheck:
        """Check rules that need no plan, and ask the external service; opens no transaction.

        :param lease: the new or changed lease, with all fields of its reservations.
        :param before: the present lease, for a change.
        :param question: one for all attempts of a request.
        :raises PolicyRefused:
        :raises errors.Unavailable: limits, the catalog or an external service cannot be
            asked now.
        """
        bounds = self._read_bounds(ctx, lease.project_id)
        # Only registered limits: [quota] unregistered concerns allocations in placement.
        bindings = {
            name: of_budget for name in budgets.BUDGETS if name in bounds.effective.defaults
            and (of_budget := self._decisions.bindings(bounds, name))}
        if self._options.check_quota:
            self._check_quota(bounds, lease, before)
        since = 0
        if bindings or self._needs_time:
            now = _read_now(ctx)
            since = int(now.timestamp()) - self._options.budget_days * _DAY
            self._check_horizon(now, lease.end_at, before)
            lease = dataclasses.replace(lease, start_at=lease.start_at or now)
            for check in self._checks:
                check(ctx, lease, before, question)
        return AdmissionCheck(
            self._decisions, bounds, bindings, since, None if before is None else before.id)

    def notify_end(self, ctx: Context, lease: Lease) -> None:
        """Notify the external service, outside of any transaction, that a lease has ended.

        Once, and without raising errors: services that must not miss it read the notifications.
        """
        if self._ask_external_service in self._checks:
            self._external.notify_end(ctx, lease)

    def _read_bounds(self, ctx: Context, project_id: str) -> ProjectLimits:
        """Return the limits that bind a project now."""
        decisions, rules = self._decisions, self._rules
        if not decisions.cacheable:
            return decisions.read_project_limits(
                ctx, project_id, rules.service_type, rules.region_id)
        # Every lease and every claim moves the change log; limits change seldom.
        revision = revisions.read(ctx, revisions.LIMITS)
        cached = self._bounds_cache.get(project_id)
        if cached is None or cached[0] != revision:
            cached = revision, dataclasses.replace(
                decisions.read_project_limits(
                    ctx, project_id, rules.service_type, rules.region_id),
                state=revision)
            self._bounds_cache.put(project_id, cached)
        return cached[1]

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

    def _check_quota(self, bounds: ProjectLimits, lease: NewLease, before: Lease | None) -> None:
        """Check the slots reserved for instances against limits, regardless of their usage.

        :raises OverQuota: naming every limit that is too small.
        """
        decisions, resources = self._decisions, self._decisions.resources
        amounts = _sum_units(
            (reservation.resource_type, reservation.raw_fields)
            for reservation in lease.reservations)
        amounts_before = _sum_units([] if before is None else (
            (reservation.resource_type, reservation.fields)
            for reservation in before.reservations))
        exceeded_limits = []
        for name in filter(resources.knows, decisions.limit_names(bounds, amounts.keys())):
            units = resources.units(name)
            amount = sum(amounts.get(unit, 0) for unit in units)
            if amount <= sum(amounts_before.get(unit, 0) for unit in units):
                continue
            bindings = decisions.bindings(bounds, name)
            unused = {(binding.node_id, binding.scope): 0 for binding in bindings}
            exceeded_limits += (
                ExceededLimit(excess.binding.node_id, name, excess.binding.scope,
                              excess.binding.source, excess.binding.limit, 0, amount)
                for excess in decisions.model.judge(name, bindings, unused, amount))
        if exceeded_limits:
            raise OverQuota(exceeded_limits)

    def _check_duration(
        self, ctx: Context, lease: NewLease, before: Lease | None, question: ExternalQuestion
    ) -> None:
        options = self._enforcement
        limit_seconds = options.max_lease_duration
        exempt_project_ids = options.max_lease_duration_exempt_project_ids
        if limit_seconds == -1 or lease.project_id in exempt_project_ids:
            return
        assert lease.start_at is not None  # "now" was replaced
        duration = lease.end_at - lease.start_at
        if before is not None and duration <= before.end_at - before.start_at:
            return
        if duration > datetime.timedelta(seconds=limit_seconds):
            raise PolicyRefused(
                f"The lease would last {int(duration.total_seconds())} seconds; it may last "
                f"{limit_seconds}.")

    def _ask_external_service(
        self, ctx: Context, lease: NewLease, before: Lease | None, question: ExternalQuestion
    ) -> None:
        if before not in question.allowed and self._external.check(
                ctx, lease, before, question.plan):
            question.allowed.append(before)


def _read_now(ctx: Context) -> datetime.datetime:
    [(now,)] = db.retry_writes(_NOW.fetch)(ctx)
    at: datetime.datetime = now
    return at.replace(microsecond=0, tzinfo=datetime.UTC)


def _require_history(conf: cfg.ConfigOpts) -> None:
    """Check that leases are kept for as long as other options need them.

    :raises errors.ConfigurationError: ``[reservations] keep_days`` is too short.
    """
    options = conf.reservations
    for name, days in (("budget_days", options.budget_days),
                       ("cleaning_time", -(-options.cleaning_time // (24 * 60)))):
        if options.keep_days < days:
            raise errors.ConfigurationError(
                f"[reservations] keep_days = {options.keep_days}: expected at least {days}, "
                f"because of {name}")


def _sum_units(reservations: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
    """Return the amounts that are reserved for instances, {unit of limits: amount}."""
    amounts: dict[str, int] = {}
    for resource_type, fields in reservations:
        if resource_type == "virtual:instance":
            amount = int(fields["amount"])
            resources = {unit: amount * int(fields[field]) for unit, field in _FIELDS.items()}
            for unit, more in {**resources, CONSUMERS: amount, INSTANCES: amount}.items():
                amounts[unit] = amounts.get(unit, 0) + more
    return amounts


def _round_up(amount: int, unit: int) -> int:
    """Return an amount in units, rounded up."""
    return -(-amount // unit)
