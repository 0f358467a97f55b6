"""Builds the services: the only module that chooses implementations."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from oslo_config import cfg

from placement_core import amounts, configured_database, errors, metrics
from placement_core.cells.databases import CellDatabases
from placement_core.changes import audit, pruning
from placement_core.changes.journal import Journal
from placement_core.compute.nodes import ComputeNodes
from placement_core.context import Context, Identity
from placement_core.db.database import Database
from placement_core.feed.waiting import ChangeWatch
from placement_core.limits import history as limit_history
from placement_core.monitoring import audit as audit_metrics, quota as quota_metrics
from placement_core.monitoring.stranded import StrandedMetrics
from placement_core.placement import unused_names
from placement_core.placement.allocations import Gate, usage_counters
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.index import CapacityIndex
from placement_core.placement.room import shapes
from placement_core.placement.room.shapes import Shape
from placement_core.placement.usage import intervals
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.plugin_api import choices, drivers
from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.compute import ComputeDriver
from placement_core.plugin_api.counting import CountingDriver
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.plugin_api.limits import LimitDriver
from placement_core.plugin_api.reservations import ReservationPlugin
from placement_core.quota import (
    claim_expiry,
    coverage,
    nodes,
    recheck_order,
    resources,
)
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.claims import Claims
from placement_core.quota.decisions import Decisions
from placement_core.quota.gang_claims import GangClaims
from placement_core.quota.guard import QuotaGuard
from placement_core.quota.instrumented_counting import InstrumentedCounting
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.nodes import LimitNodes
from placement_core.quota.overview import Overviews
from placement_core.quota.queries import QuotaQueries
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.quota.rechecks import Rechecks
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.reservations.hosts.healing import Healing
from placement_core.reservations.hosts.monitor import Monitor
from placement_core.reservations.hosts.registry import HostRegistry
from placement_core.reservations.leases import history, rendered_texts
from placement_core.reservations.leases.rendered_cache import LeaseTexts
from placement_core.reservations.leases.rendered_texts import LeaseRenderer
from placement_core.reservations.leases.service import Leases
from placement_core.reservations.leases.transitions import Transitions
from placement_core.reservations.manager import event_queue, heartbeats, loop
from placement_core.reservations.manager.loop import Manager, ManagerSettings, PeriodicTask
from placement_core.reservations.policy import budgets
from placement_core.reservations.policy.rules import LeaseRules
from placement_core.reservations.provisioning import freepool, outbox, slots
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.room import RoomQueries
from placement_core.thresholds import webhooks
from placement_core.thresholds.monitor import ThresholdMonitor
from placement_core.thresholds.webhooks import Sender
from placement_core.workers.reporter import WorkerReporter

T = TypeVar("T")

#: How many old rows the manager deletes in one transaction.
_PRUNE_BATCH = 500
#: How many such transactions it executes in a row.
_MOST_BATCHES = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """The services that HTTP and the commands use.

    :ivar candidate_ordering: says which hosts come first in allocation candidates.
    :ivar shapes: the usual requests of the site.
    :ivar model: the enforcement model of limits in a tree of projects.
    :ivar advertised_model: the model that clients are told; usually the same.
    :ivar quota: answers whether a request fits, and what is free; ``overviews`` does so for
        all projects at once, and ``rechecks`` for what exists already.
    :ivar claims: writes allocations, through quota and other gates that may refuse them.
    :ivar gang_claims: finds room for several consumers at once, and claims it.
    :ivar owners: the projects and users of consumers.
    :ivar host_access: admits claims to hosts of the freepool; None: every claim is admitted.
    :ivar reservation_plugins: by resource type.
    :ivar compute: creates what reservations need in the compute service, mostly through the
        outbox.
    :ivar watch: lets readers of the change feed wait.
    :ivar room: answers how much there is, is used, held, promised to leases, and free.
    :ivar leases: creates, updates and deletes leases; ``transitions`` executes their events.
    :ivar lease_texts: the cached rendering of leases for clients.
    :ivar thresholds: reports limits that fill up, and short capacity; None: it is off.
    :ivar reporter: reports how this process does, if it serves; None: it does not.
    :ivar pool_hosts: adds hosts to the freepool and removes them; ``monitor`` detects failed
        hosts, and ``healing`` finds replacements for the leases that had them.
    """

    conf: cfg.ConfigOpts
    database: Database
    index: CapacityIndex
    candidate_ordering: CandidateOrdering
    shapes: Sequence[Shape]
    catalog: CatalogDriver
    limits: LimitDriver
    model: EnforcementModel
    advertised_model: EnforcementModel
    counting: CountingDriver
    decisions: Decisions
    cells: CellDatabases
    compute_nodes: ComputeNodes
    quota: QuotaQueries
    overviews: Overviews
    rechecks: Rechecks
    claims: Claims
    gang_claims: GangClaims
    owners: Owners
    host_access: HostAccessGate | None
    reservation_plugins: Mapping[str, ReservationPlugin]
    compute: ComputeDriver
    watch: ChangeWatch
    room: RoomQueries
    leases: Leases
    lease_texts: LeaseTexts
    transitions: Transitions
    pool_hosts: HostRegistry
    healing: Healing
    monitor: Monitor
    thresholds: ThresholdMonitor | None
    reporter: WorkerReporter | None

    def limit_gaps(self, ctx: Context) -> list[str]:
        """Return a sentence for each reason why registered limits bind no project.

        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        return coverage.find_gaps(ctx, self.quota, judged_elsewhere=budgets.BUDGETS)

    def manager(self, renderer: LeaseRenderer) -> Manager:
        """Return the manager that executes lease events and periodic tasks in this process.

        :param renderer: renders leases for clients.
        """
        options = self.conf.reservations
        settings = ManagerSettings(
            options.manager_threads, options.poll_seconds, options.event_timeout_seconds,
            options.event_max_retries, 60 * options.cleaning_time)
        owner = loop.new_owner()
        tasks = [
            PeriodicTask("heartbeat", heartbeats.EVERY_SECONDS, functools.partial(
                heartbeats.beat, owner=owner)),
            PeriodicTask("sweep of held claims", 10, claim_expiry.sweep),
            PeriodicTask("notes of what starts wait for", 5, event_queue.explain_waiting),
            PeriodicTask("watch over hosts", 60, self.monitor.watch),
            PeriodicTask("healing of leases", 10, self.healing.heal),
            PeriodicTask("texts of leases", 5, rendered_texts.TextFiller(renderer).fill),
            PeriodicTask("removal of what is old", 600, functools.partial(
                history.remove_old, keep_days=options.keep_days)),
            PeriodicTask("removal of old history of limits", 600, functools.partial(
                _prune_in_batches, limit_history.prune,
                keep_days=self.conf.limits.history_keep_days)),
            PeriodicTask("removal of old usage intervals", 600, functools.partial(
                _prune_in_batches, intervals.prune,
                keep_days=self.conf.usage_intervals.keep_days)),
            PeriodicTask("removal of old audit entries", 600, functools.partial(
                _prune_in_batches, audit.prune, keep_days=self.conf.audit.keep_days)),
            PeriodicTask("search for limits that bind nobody", 300,
                         coverage.GapLog(self.limit_gaps).update),
            PeriodicTask("folding of usage counters", 600, functools.partial(
                usage_counters.fold, merge_slots=self.conf.quota.guard == "enforce")),
            PeriodicTask("removal of old answers of re-checks", 600, functools.partial(
                _prune_in_batches, recheck_order.prune)),
            PeriodicTask("removal of old changes from the log", 600, functools.partial(
                pruning.remove_old, keep_seconds=self.conf.changes.keep_seconds)),
            PeriodicTask("removal of projects, users, types and aggregates that are not used",
                         3600, unused_names.remove),
            PeriodicTask("removal of limit nodes that are not used", 3600, nodes.remove_unused),
            PeriodicTask("removal of slots that were in use when their lease ended", 60,
                         slots.tidy),
        ]
        if self.thresholds is not None:
            tasks += [
                PeriodicTask("look at thresholds", self.conf.thresholds.interval,
                             self.thresholds.check),
                *(PeriodicTask(f"reports to webhook {number}", 2, Sender(target).deliver,
                               is_drain=True)
                  for number, target in enumerate(self.thresholds.targets, 1)),
                PeriodicTask("removal of reports that no webhook took", 60, functools.partial(
                    webhooks.discard_late, targets=self.thresholds.targets), is_drain=True),
            ]
        if metrics.is_started():
            tasks += [
                PeriodicTask("metrics of room", 60, self.room.export),
                PeriodicTask("metrics of quota", 300, functools.partial(
                    quota_metrics.export, overviews=self.overviews)),
                PeriodicTask("metrics of an audit", 3600, functools.partial(
                    audit_metrics.export, index=self.index, owner=owner)),
            ]
            if self.shapes:
                tasks.append(PeriodicTask(
                    "metrics of what is stranded", 60, StrandedMetrics(
                        self.index, self.shapes,
                        exclude_reserved=self.host_access is not None).export))
        if self.compute.acts:
            tasks.append(PeriodicTask(
                "audit of the compute service", 3600,
                functools.partial(outbox.audit, driver=self.compute)))
            tasks.append(PeriodicTask(
                "order of the compute service's freepool", 600,
                functools.partial(freepool.converge, driver=self.compute,
                                  has_freepool=options.instance_design == "aggregate")))
            tasks += [
                PeriodicTask(
                    f"calls to the compute service ({number})", options.poll_seconds,
                    functools.partial(_make_next_call, driver=self.compute,
                                      owner=f"{owner}:{number}",
                                      patience_seconds=options.server_deletion_timeout),
                    is_drain=True)
                for number in range(options.manager_threads)]
        return Manager(owner, self.context, self.transitions, settings, tasks)

    def context(
        self, identity: Identity = Identity(), request_id: str | None = None,  # noqa: B008
        operation: str | None = None,
    ) -> Context:
        """Return the context of one request or one command.

        :param operation: as in ``Context``.
        """
        return Context(self.database, identity, request_id, operation=operation)


def _prune_in_batches(prune: Callable[..., int], ctx: Context, **options: Any) -> None:
    """Prune in bounded transactions until one of them finds less than it may delete."""
    for _ in range(_MOST_BATCHES):
        if prune(ctx, most=_PRUNE_BATCH, **options) < _PRUNE_BATCH:
            return


def _make_next_call(ctx: Context, **options: Any) -> bool:
    """Make one call to the compute service that is due; return whether there was one."""
    return outbox.make_calls(ctx, most=1, **options).taken > 0


def build(conf: cfg.ConfigOpts) -> Services:
    """Build the services that ``conf`` describes, without connecting to anything yet.

    :raises errors.ConfigurationError: the database URL or a driver cannot be used.
    """
    database = _make_database(conf)
    owners = Owners((conf.placement.incomplete_consumer_project_id,
                     conf.placement.incomplete_consumer_user_id))
    _log_statements(conf.placement_database.connection_debug)
    model, advertised_model = _make_models(conf)
    catalog, limits = _make_catalog(conf), _make_limits(conf)
    usage, cells = UsageIndex(database), CellDatabases(conf)
    decisions = _make_decisions(conf, usage, catalog, limits, model)
    counting = _make_counting(conf, usage)
    quota = QuotaQueries(
        decisions, counting, catalog, limits, cells, _make_limit_source(conf),
        conf.quota.on_missing_cell)
    limit_nodes, pruner = LimitNodes(), AnswerPruner()
    host_access = HostAccessGate() if conf.reservations.fence == "enforce" else None
    plugins, compute = _make_reservation_plugins(conf), _make_compute(conf)
    compute_nodes = ComputeNodes(conf, cells)
    provisioner = _make_provisioner(conf, compute)
    rules = LeaseRules(conf, decisions, _make_limit_source(conf))
    healing = _make_healing(conf, plugins, provisioner)
    overviews = Overviews(quota)
    index, bookings, ordering = (
        CapacityIndex(database), BookingIndex(database), _make_candidate_ordering(conf))
    claims = _make_claims(conf, decisions, limit_nodes, pruner, catalog, owners, host_access)
    return Services(
        conf, database, index, candidate_ordering=ordering, shapes=shapes.read(conf),
        catalog=catalog, limits=limits, model=model, advertised_model=advertised_model,
        counting=counting, decisions=decisions, cells=cells, quota=quota,
        overviews=overviews, compute_nodes=compute_nodes,
        rechecks=Rechecks(quota, limit_nodes, pruner),
        claims=claims,
        gang_claims=GangClaims(
            claims, index, ordering, exclude_reserved=host_access is not None),
        owners=owners, host_access=host_access, reservation_plugins=plugins, compute=compute,
        watch=ChangeWatch(
            functools.partial(Context, database),
            # Of the requests that a worker processes at a time, two have to be others.
            most=max(0, conf.api.max_concurrent_requests - 2)),
        room=RoomQueries(index, bookings),
        leases=_make_leases(conf, plugins, provisioner, rules, bookings),
        lease_texts=LeaseTexts(),
        transitions=Transitions(
            plugins, provisioner, rules, cleaning_seconds=60 * conf.reservations.cleaning_time),
        pool_hosts=HostRegistry(provisioner, compute_nodes, healing), healing=healing,
        monitor=Monitor(cells, silent_seconds=conf.reservations.silent_host_seconds),
        thresholds=ThresholdMonitor(
            conf, overviews, index, shapes.read(conf),
            exclude_reserved=host_access is not None) if conf.thresholds.enabled else None,
        reporter=_make_reporter(conf, database, index),
    )


def _make_database(conf: cfg.ConfigOpts) -> Database:
    return Database(
        configured_database.make_settings(conf),
        Journal(conf.changes.keep_seconds, audits=conf.audit.enabled),
        retries=conf.placement.allocation_conflict_retry_count)


def _make_decisions(
    conf: cfg.ConfigOpts, usage: UsageIndex, catalog: CatalogDriver, limits: LimitDriver,
    model: EnforcementModel,
) -> Decisions:
    return Decisions(
        usage, catalog, limits, model,
        resources=resources.parse(conf.quota.resource_map),
        unregistered=0 if conf.quota.unregistered == "zero" else amounts.UNLIMITED)


def _make_claims(
    conf: cfg.ConfigOpts, decisions: Decisions, limit_nodes: LimitNodes, pruner: AnswerPruner,
    catalog: CatalogDriver, owners: Owners, host_access: HostAccessGate | None,
) -> Claims:
    """Make the writer of allocations, with the gates that may refuse a write.

    The gates are in the order in which they decide: quota is not checked for a claim that
    may not use the host.
    """
    mode, source, held_claims = conf.quota.guard, _make_limit_source(conf), HeldClaimsGate(catalog)
    admission: list[Gate] = [] if host_access is None else [host_access]
    guards: list[Gate] = [] if mode == "off" else [
        QuotaGuard(decisions, limit_nodes, source, mode, owners=owners)]
    # Limits bind claims even if they do not bind other writes; re-checks have to know then.
    enforcing = guards[0] if mode == "enforce" else QuotaGuard(
        decisions, limit_nodes, source, "enforce", owners=owners, record_grants=True)
    return Claims(
        [*admission, *guards, held_claims], [*admission, enforcing, held_claims], pruner, owners,
        conf.placement.max_grouped_consumers)


def _make_limit_source(conf: cfg.ConfigOpts) -> LimitSource:
    return LimitSource(conf.quota.service_type, conf.quota.region or None)


def _make_provisioner(conf: cfg.ConfigOpts, compute: ComputeDriver) -> Provisioner:
    options = conf.reservations
    return Provisioner(
        design=options.instance_design, leftovers=options.leftovers, acts=compute.acts,
        patience_seconds=options.server_deletion_timeout)


def _make_leases(
    conf: cfg.ConfigOpts, plugins: Mapping[str, ReservationPlugin], provisioner: Provisioner,
    rules: LeaseRules, bookings: BookingIndex,
) -> Leases:
    options = conf.reservations
    return Leases(
        plugins, provisioner, rules, bookings, cleaning_seconds=60 * options.cleaning_time,
        minutes_before_end=options.minutes_before_end_lease,
        max_reservations=options.max_reservations_per_lease)


def _make_healing(
    conf: cfg.ConfigOpts, plugins: Mapping[str, ReservationPlugin], provisioner: Provisioner
) -> Healing:
    options = conf.reservations
    return Healing(
        plugins, provisioner, cleaning_seconds=60 * options.cleaning_time,
        interval_seconds=60 * options.healing_interval)


def _make_reporter(
    conf: cfg.ConfigOpts, database: Database, index: CapacityIndex
) -> WorkerReporter | None:
    is_wanted = conf.workers.report
    if is_wanted is None:
        is_wanted = conf.dashboard.enabled
    return WorkerReporter(functools.partial(Context, database), index) if is_wanted else None


def _make_candidate_ordering(conf: cfg.ConfigOpts) -> CandidateOrdering:
    return CandidateOrdering(drivers.make(
        conf, choices.choose_candidate_order(conf),
        CandidateOrder))  # type: ignore[type-abstract]


def _make_catalog(conf: cfg.ConfigOpts) -> CatalogDriver:
    return drivers.make(
        conf, choices.choose_catalog(conf), CatalogDriver)  # type: ignore[type-abstract]


def _make_limits(conf: cfg.ConfigOpts) -> LimitDriver:
    return drivers.make(
        conf, choices.choose_limits(conf), LimitDriver)  # type: ignore[type-abstract]


def _make_models(conf: cfg.ConfigOpts) -> tuple[EnforcementModel, EnforcementModel]:
    """Return the enforcement model, and the advertised one, which is the same by default."""
    chosen, advertised = choices.choose_models(conf)
    model = drivers.make(conf, chosen, EnforcementModel)  # type: ignore[type-abstract]
    if advertised == chosen:
        return model, model
    return model, drivers.make(
        conf, advertised, EnforcementModel)  # type: ignore[type-abstract]


def _make_counting(conf: cfg.ConfigOpts, usage: UsageIndex) -> CountingDriver:
    choice = choices.choose_counting(conf)
    driver = drivers.make(conf, choice, CountingDriver)  # type: ignore[type-abstract]
    if conf.quota.guard == "enforce" and not driver.transactional:
        raise errors.ConfigurationError(
            f"[quota] guard = enforce: expected a counting driver that counts allocations in "
            f"this service's own database (count_usage_from_placement = true, without "
            f"[placement_client]); {choice.name} does not")
    driver.use_index(usage)
    return InstrumentedCounting(driver, choice.name) if conf.metrics.enabled else driver


def _make_reservation_plugins(conf: cfg.ConfigOpts) -> dict[str, ReservationPlugin]:
    return {
        choice.name: drivers.make(
            conf, choice, ReservationPlugin)  # type: ignore[type-abstract]
        for choice in choices.choose_reservation_plugins(conf)}


def _make_compute(conf: cfg.ConfigOpts) -> ComputeDriver:
    choice = choices.choose_compute(conf)
    driver = drivers.make(conf, choice, ComputeDriver)  # type: ignore[type-abstract]
    if conf.reservations.instance_design == "aggregate" and not driver.acts:
        raise errors.ConfigurationError(
            f"[reservations] instance_design = aggregate: expected a compute_driver that reaches "
            f"a compute service, such as nova; {choice.name} does not")
    return driver


def _log_statements(connection_debug: int) -> None:
    """Log statements from 50 on, and results from 100 on, as oslo.db does."""
    if connection_debug >= 50:
        level = logging.DEBUG if connection_debug >= 100 else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)
