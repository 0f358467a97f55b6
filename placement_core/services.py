"""Picks the implementations: the one place that knows which class plays which part."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oslo_config import cfg

from placement_core import amounts, errors
from placement_core.cells.databases import CellDatabases
from placement_core.changes.journal import Journal
from placement_core.compute.nodes import ComputeNodes
from placement_core.context import Context, Identity
from placement_core.db.database import Database, Settings
from placement_core.limits import history as limit_history
from placement_core.placement.allocations import Gate, usage_counters
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.index import CapacityIndex
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.plugin_api import loader
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.compute import ComputeDriver
from placement_core.plugin_api.counting import CountingDriver
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.plugin_api.limits import LimitDriver
from placement_core.plugin_api.reservations import ReservationPlugin
from placement_core.quota import claim_expiry, coverage, members, resources
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.claims import Claims
from placement_core.quota.decisions import Decisions
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
from placement_core.reservations.manager import event_queue, loop
from placement_core.reservations.manager.loop import Manager, Pace, PeriodicTask
from placement_core.reservations.policy import budgets
from placement_core.reservations.policy.rules import LeaseRules
from placement_core.reservations.provisioning import freepool, outbox, slots
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.scheduling.booking_index import BookingIndex

T = TypeVar("T")

#: So many calls to a compute service a thread of the manager makes in a row.
_CALLS = 100
#: So many rows of the history of limits that are too old to be kept it removes at a time.
_OLD = 1000
#: So many times in a row, where it has to be repeated.
_BATCHES = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What the edges (HTTP, commands) are handed.

    :ivar model: how limits are read in a tree of projects.
    :ivar advertised_model: the one that clients are told of; mostly the same.
    :ivar quota: answers whether something fits, and what is free; ``overviews`` of all
        projects at once; ``rechecks`` of what is there already.
    :ivar claims: writes allocations, judged by quota and whoever else has to.
    :ivar owners: whom consumers belong to.
    :ivar host_access: lets claims onto hosts of the freepool; None: nobody keeps them off.
    :ivar reservation_plugins: by resource type.
    :ivar compute: makes what reservations need in the compute service; mostly through the
        outbox.
    :ivar leases: admits them, changes them and gives them up; ``transitions`` carries out what
        is due.
    :ivar lease_texts: of leases as clients were shown them.
    :ivar pool_hosts: lets hosts into the freepool and out; ``monitor`` finds those that
        fail, ``healing`` other ones for the leases that held them.
    """

    conf: cfg.ConfigOpts
    database: Database
    index: CapacityIndex
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
    owners: Owners
    host_access: HostAccessGate | None
    reservation_plugins: Mapping[str, ReservationPlugin]
    compute: ComputeDriver
    leases: Leases
    lease_texts: LeaseTexts
    transitions: Transitions
    pool_hosts: HostRegistry
    healing: Healing
    monitor: Monitor

    def limit_gaps(self, ctx: Context) -> list[str]:
        """Return a sentence for each way in which registered limits bind nobody.

        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        return coverage.find_gaps(ctx, self.quota, judged_elsewhere={
            *budgets.BUDGETS, members.RESOURCE_NAME})

    def manager(self, renderer: LeaseRenderer) -> Manager:
        """Return what carries out, in this process, what is due.

        :param renderer: how clients are shown leases.
        """
        options = self.conf.reservations
        pace = Pace(options.manager_threads, options.poll_seconds,
                    options.event_timeout_seconds, options.event_max_retries,
                    60 * options.cleaning_time)
        owner = loop.new_owner()
        tasks = [
            PeriodicTask("sweep of held claims", 10, claim_expiry.sweep),
            PeriodicTask("notes of what starts wait for", 5, event_queue.explain_waiting),
            PeriodicTask("watch over hosts", 60, self.monitor.watch),
            PeriodicTask("healing of leases", 10, self.healing.heal),
            PeriodicTask("texts of leases", 5, functools.partial(
                rendered_texts.fill, renderer=renderer)),
            PeriodicTask("removal of what is old", 600, functools.partial(
                history.remove_old, keep_days=options.keep_days)),
            PeriodicTask("removal of old history of limits", 600, functools.partial(
                _repeat, limit_history.prune, keep_days=self.conf.limits.history_keep_days)),
            PeriodicTask("search for limits that bind nobody", 300,
                         coverage.GapLog(self.limit_gaps).update),
            PeriodicTask("removal of usage counters that are 0", 600, usage_counters.fold),
            PeriodicTask("removal of slots that were in use when their lease ended", 60,
                         slots.tidy),
        ]
        if self.compute.acts:
            tasks.append(PeriodicTask(
                "audit of the compute service", 3600,
                functools.partial(outbox.audit, driver=self.compute)))
            tasks.append(PeriodicTask(
                "order of the compute service's freepool", 600,
                functools.partial(freepool.converge, driver=self.compute,
                                  wanted=options.instance_design == "aggregate")))
            tasks += [
                PeriodicTask(
                    f"calls to the compute service ({number})", options.poll_seconds,
                    functools.partial(outbox.work_off, driver=self.compute,
                                      owner=f"{owner}:{number}", most=_CALLS,
                                      patience_seconds=options.server_deletion_timeout))
                for number in range(options.manager_threads)]
        return Manager(owner, self.context, self.transitions, pace, tasks)

    def context(
        self, identity: Identity = Identity(), request_id: str | None = None  # noqa: B008
    ) -> Context:
        """Return the context of one request or one command."""
        return Context(self.database, identity, request_id)


def _repeat(prune: Callable[..., int], ctx: Context, **how: Any) -> None:
    """Remove what is old, in transactions that are bounded, until little is left."""
    for _ in range(_BATCHES):
        if prune(ctx, most=_OLD, **how) < _OLD:
            return


def build(conf: cfg.ConfigOpts) -> Services:
    """Make the parts that ``conf`` asks for; nothing is connected to yet.

    :raises errors.ConfigurationError: the database URL or a driver cannot be used.
    """
    database = Database(
        database_settings(conf), Journal(),
        retries=conf.placement.allocation_conflict_retry_count)
    owners = Owners((conf.placement.incomplete_consumer_project_id,
                     conf.placement.incomplete_consumer_user_id))
    _log_statements(conf.placement_database.connection_debug)
    model = _model(conf, conf.limits.enforcement_model, "enforcement_model")
    advertised = conf.limits.advertised_model
    catalog = _driver(
        conf, "placement_core.catalog", conf.catalog.driver,
        CatalogDriver,  # type: ignore[type-abstract]
        "[catalog] driver")
    limits = _driver(
        conf, "placement_core.limits", conf.limits.driver,
        LimitDriver,  # type: ignore[type-abstract]
        "[limits] driver")
    usage = UsageIndex(database)
    decisions = Decisions(
        usage, catalog, limits, model,
        resources=resources.parse(conf.quota.resource_map),
        unregistered=0 if conf.quota.unregistered == "zero" else amounts.UNLIMITED)
    counting, cells = _counting(conf, usage), CellDatabases(conf)
    quota = QuotaQueries(
        decisions, counting, catalog, limits, cells, _limit_source(conf),
        conf.quota.on_missing_cell)
    limit_nodes, pruner = LimitNodes(), AnswerPruner()
    options = conf.reservations
    plugins, nodes, compute = _plugins(conf), ComputeNodes(conf, cells), _compute(conf)
    provisioner = Provisioner(
        design=options.instance_design, leftovers=options.leftovers, acts=compute.acts,
        patience_seconds=options.server_deletion_timeout)
    rules = LeaseRules(conf, decisions, _limit_source(conf))
    host_access = HostAccessGate() if options.fence == "enforce" else None
    leases = Leases(
        plugins, provisioner, rules, BookingIndex(database),
        cleaning_seconds=60 * options.cleaning_time,
        minutes_before_end=options.minutes_before_end_lease,
        max_reservations=options.max_reservations_per_lease)
    healing = Healing(
        plugins, provisioner, cleaning_seconds=60 * options.cleaning_time,
        interval_seconds=60 * options.healing_interval)
    return Services(
        conf, database, CapacityIndex(database), catalog=catalog, limits=limits, model=model,
        advertised_model=_model(conf, advertised, "advertised_model") if advertised else model,
        counting=counting, decisions=decisions, cells=cells, quota=quota,
        overviews=Overviews(quota), compute_nodes=nodes,
        rechecks=Rechecks(quota, limit_nodes, pruner),
        claims=_claims(conf, decisions, limit_nodes, pruner, catalog, owners, host_access),
        owners=owners, host_access=host_access,
        reservation_plugins=plugins, compute=compute, leases=leases, lease_texts=LeaseTexts(),
        transitions=Transitions(
            plugins, provisioner, rules, cleaning_seconds=60 * options.cleaning_time),
        pool_hosts=HostRegistry(provisioner, nodes, healing), healing=healing,
        monitor=Monitor(cells, silent_seconds=options.silent_host_seconds),
    )


def _claims(
    conf: cfg.ConfigOpts, decisions: Decisions, limit_nodes: LimitNodes, pruner: AnswerPruner,
    catalog: CatalogDriver, owners: Owners, host_access: HostAccessGate | None,
) -> Claims:
    """Make what writes allocations, with everybody who may refuse it.

    In the order in which they decide: who is not let onto a host is not asked about quota.
    """
    mode, source, held_claims = conf.quota.guard, _limit_source(conf), HeldClaimsGate(catalog)
    admission: list[Gate] = [] if host_access is None else [host_access]
    guards: list[Gate] = [] if mode == "off" else [
        QuotaGuard(decisions, limit_nodes, source, mode, owners=owners)]
    # Claims go by the limits even where other writes do not: re-checks are told of them then.
    enforcing = QuotaGuard(
        decisions, limit_nodes, source, "enforce", owners=owners, notes=mode != "enforce")
    return Claims(
        [*admission, *guards, held_claims], [*admission, enforcing, held_claims], pruner, owners)


def _limit_source(conf: cfg.ConfigOpts) -> LimitSource:
    return LimitSource(conf.quota.service_type, conf.quota.region or None)


def _model(conf: cfg.ConfigOpts, name: str, option: str) -> EnforcementModel:
    return _driver(
        conf, "placement_core.enforcement", name,
        EnforcementModel,  # type: ignore[type-abstract]
        f"[limits] {option}")


def _counting(conf: cfg.ConfigOpts, usage: UsageIndex) -> CountingDriver:
    own = "placement" if conf.quota.count_usage_from_placement else "legacy_cell"
    name = conf.quota.counting_driver or own
    driver = _driver(
        conf, "placement_core.counting", name,
        CountingDriver,  # type: ignore[type-abstract]
        "[quota] counting_driver" if conf.quota.counting_driver
        else "[quota] counting_driver (by count_usage_from_placement)")
    if conf.quota.guard == "enforce" and not driver.transactional:
        raise errors.ConfigurationError(
            f"[quota] guard = enforce: expected a counting driver that counts allocations in "
            f"this service's own database (count_usage_from_placement = true, without "
            f"[placement_client]); {name} does not")
    driver.use_index(usage)
    return InstrumentedCounting(driver, name) if conf.metrics.enabled else driver


def _plugins(conf: cfg.ConfigOpts) -> dict[str, ReservationPlugin]:
    return {
        name: _driver(
            conf, "placement_core.reservations", name,
            ReservationPlugin,  # type: ignore[type-abstract]
            "[reservations] plugins")
        for name in conf.reservations.plugins}


def _compute(conf: cfg.ConfigOpts) -> ComputeDriver:
    options = conf.reservations
    driver = _driver(
        conf, "placement_core.compute", options.compute_driver,
        ComputeDriver,  # type: ignore[type-abstract]
        "[reservations] compute_driver")
    if options.instance_design == "aggregate" and not driver.acts:
        raise errors.ConfigurationError(
            f"[reservations] instance_design = aggregate: expected a compute_driver that reaches "
            f"a compute service, such as nova; {options.compute_driver} does not")
    return driver


def _driver(
    conf: cfg.ConfigOpts, namespace: str, name: str, base: type[T], option: str
) -> T:
    """Make the driver that an option names."""
    # Drivers of every kind are made of the options; ``base`` does not say so.
    make: Callable[[cfg.ConfigOpts], T] = loader.load(namespace, name, base, option=option)
    return make(conf)


def database_settings(conf: cfg.ConfigOpts) -> Settings:
    """Return how ``[placement_database]`` says the database is reached."""
    group = conf.placement_database
    return Settings(
        connection=group.connection,
        connection_parameters=group.connection_parameters,
        max_pool_size=group.max_pool_size,
        max_overflow=group.max_overflow,
        pool_timeout_seconds=group.pool_timeout,
        connection_recycle_seconds=group.connection_recycle_time,
        statement_timeout_seconds=group.statement_timeout_seconds,
        lock_timeout_seconds=group.lock_timeout_seconds,
        idle_in_transaction_timeout_seconds=group.idle_in_transaction_timeout_seconds,
        sqlite_synchronous=group.sqlite_synchronous,
        mysql_sql_mode=group.mysql_sql_mode or None,
        network_timeout_seconds=group.network_timeout_seconds,
        retry_timeout_seconds=group.retry_timeout_seconds,
    )


def _log_statements(connection_debug: int) -> None:
    """Log statements, and results too, as oslo.db understands the option."""
    if connection_debug >= 50:
        level = logging.DEBUG if connection_debug >= 100 else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)
