"""``/health``: whether the parts of the service work, and what waits or failed."""

from __future__ import annotations

import dataclasses
import datetime
import operator
import os
from collections.abc import Mapping, Sequence

from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import rendering, sections
from placement_core.http.leases_api import policies as lease_policies
from placement_core.http.operations import Call, Reply
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.manager import backlog, event_queue, heartbeats
from placement_core.reservations.manager.backlog import Backlog
from placement_core.reservations.manager.heartbeats import ManagerState
from placement_core.reservations.provisioning import outbox
from placement_core.reservations.provisioning.outbox import OutboxCall
from placement_core.reservations.records import EventWork
from placement_core.thresholds import webhooks
from placement_core.thresholds.webhooks import UndeliveredReports
from placement_core.workers import store

#: The rules of the sections.
RULES = (policies.ROOM_SHOW, policies.QUOTA_OF_ALL, policies.RESERVATIONS_RETRY_EVENT,
         policies.THRESHOLDS_LIST, policies.WORKERS_LIST, lease_policies.HOSTS_GET)
_MOST_MANAGERS, _MOST_EVENTS, _MOST_CALLS, _MOST_HOSTS, _MOST_WORKERS = 20, 50, 50, 50, 100


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerState:
    """The worker that answers, and its index.

    :ivar providers: how many the index has; it is as new as this answer.
    :ivar refreshed_at: when the index read what had changed.
    :ivar waiting: how many readers wait for changes, of at most ``most_waiting``.
    """

    process_id: int
    providers: int
    refreshed_at: datetime.datetime | None
    waiting: int
    most_waiting: int


@dataclasses.dataclass(frozen=True, slots=True)
class Managers:
    """What managers have to do, how many leases have each status, and which managers there are."""

    backlog: Backlog
    leases: Mapping[str, int]
    managers: Sequence[ManagerState]

    @property
    def last_audit(self) -> ManagerState | None:
        """The manager that audited the stored sums last; None: none of the last day did."""
        audits = [(manager.audited_at, manager) for manager in self.managers
                  if manager.audited_at is not None]
        return max(audits, key=operator.itemgetter(0))[1] if audits else None


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingWork:
    """What failed, and what waits for the compute service: the oldest calls.

    :ivar lease_names: {id: name}, of the events.
    """

    events: Sequence[EventWork]
    calls: Sequence[OutboxCall]
    lease_names: dict[str, str]


def show(call: Call) -> Reply:
    """Show whether workers, managers and the compute service do what they should."""
    return rendering.render(
        call, "health.html", title="Health",
        worker=sections.read(call, policies.ROOM_SHOW, lambda: _read_worker(call)),
        workers=sections.read(
            call, policies.WORKERS_LIST, lambda: store.list_workers(call.ctx, _MOST_WORKERS)),
        managers=sections.read(call, policies.ROOM_SHOW, lambda: Managers(
            backlog.measure(call.ctx), backlog.count_leases(call.ctx),
            heartbeats.list_(call.ctx, _MOST_MANAGERS))),
        work=sections.read(
            call, policies.RESERVATIONS_RETRY_EVENT, lambda: _read_work(call)),
        reports=sections.read(
            call, policies.THRESHOLDS_LIST, lambda: _count_reports(call)),
        gaps=sections.read(
            call, policies.QUOTA_OF_ALL, lambda: call.services.limit_gaps(call.ctx)),
        down_hosts=sections.read(call, lease_policies.HOSTS_GET, lambda: host_queries.list_down(
            call.ctx, _MOST_HOSTS)))


def _read_worker(call: Call) -> WorkerState:
    index, watch = call.services.index, call.services.watch
    providers = len(index.snapshot(call.ctx).layout.row_of_id)
    return WorkerState(
        os.getpid(), providers, index.refreshed_at, watch.waiting, watch.most)


def _read_work(call: Call) -> WaitingWork:
    events = event_queue.list_failed(call.ctx, _MOST_EVENTS)
    return WaitingWork(
        events, outbox.list_(call.ctx, _MOST_CALLS),
        lease_queries.get_names(call.ctx, {event.lease_id for event in events}))


def _count_reports(call: Call) -> UndeliveredReports | None:
    """Count the reports that webhooks have not taken; None: there are no webhooks."""
    thresholds = call.services.thresholds
    return None if thresholds is None or not thresholds.targets else (
        webhooks.count_undelivered(call.ctx))
