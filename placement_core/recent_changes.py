"""What happened last: to leases, to limits, which events of leases failed, which thresholds were
reached or left.

The notifications of leases, the history of limits, the queue of events and the thresholds that are
reached or were left are read one after the other, the newest entries of each, and merged.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterator
from typing import Literal

from placement_core.context import Context
from placement_core.limits import history
from placement_core.limits.records import Change
from placement_core.reservations.leases import lease_queries, notifications
from placement_core.reservations.manager import event_queue
from placement_core.reservations.records import EventWork, Notification
from placement_core.thresholds import monitor
from placement_core.thresholds.monitor import LeftThreshold, ReachedThreshold


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Whose changes are wanted.

    :ivar project_id: None: those of all projects.
    """

    project_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class RecentChange:
    """Something that happened.

    :ivar kind: what it happened to: a lease, a limit, an event of a lease that failed, or a
        threshold that was reached or left.
    :ivar what: the name of a notification, such as ``lease.create``; for a limit ``created``,
        ``updated`` or ``deleted``; for an event its type; for a threshold the kind of its subject.
    :ivar subject_id: the id of the lease or limit; for a threshold that of what is measured.
    :ivar subject_name: the name of the lease, or of the limited resource; of capacity that is
        short, the amounts of the request; None: not known.
    :ivar project_id: whose lease or limit it is; None: everybody's, a domain's, or not known. The
        limit of a threshold may be a domain's, which is named here, too.
    :ivar old_value: of a limit, before; ``new_value``: after it. None: there was, or is, none.
    :ivar problem: why an event failed.
    :ivar user_id: who did it, where that is known.
    :ivar reached: the threshold that was reached, and still is; ``left``: the one that was left.
    """

    at: datetime.datetime
    kind: Literal["lease", "limit", "event", "threshold"]
    what: str
    subject_id: str
    subject_name: str | None
    project_id: str | None = None
    old_value: int | None = None
    new_value: int | None = None
    problem: str | None = None
    user_id: str | None = None
    reached: ReachedThreshold | None = None
    left: LeftThreshold | None = None


def list_recent(
    ctx: Context, most: int, *, leases: Scope | None, limits: Scope | None, failures: bool,
    thresholds: bool,
) -> list[RecentChange]:
    """Return the last changes, the newest first.

    :param leases: whose leases; None: of none. ``limits`` likewise.
    :param failures: whether events that failed are wanted, which no project's own are.
    :param thresholds: whether thresholds that were reached and still are, and those that were
        left, are wanted.
    """
    changes: Iterator[RecentChange] = iter(())
    if leases is not None:
        changes = itertools.chain(changes, map(_of_lease, notifications.list_newest(
            ctx, project_id=leases.project_id, limit=most)))
    if limits is not None:
        changes = itertools.chain(changes, map(_of_limit, history.list_(
            ctx, project_id=limits.project_id, limit=most)))
    if failures:
        changes = itertools.chain(changes, _list_failures(ctx, most))
    if thresholds:
        changes = itertools.chain(
            changes, map(_of_threshold, monitor.list_newest(ctx, most)),
            map(_of_left_threshold, monitor.list_left(ctx, most)))
    return sorted(changes, key=lambda change: change.at, reverse=True)[:most]


def _of_lease(notification: Notification) -> RecentChange:
    return RecentChange(
        notification.at, "lease", notification.event, notification.lease_id,
        notification.lease.get("name"), notification.project_id)


def _of_limit(change: Change) -> RecentChange:
    return RecentChange(
        change.at, "limit", change.action, change.limit_id, change.resource_name,
        change.project_id, change.old_value, change.new_value, user_id=change.by_user_id)


def _list_failures(ctx: Context, most: int) -> Iterator[RecentChange]:
    events = event_queue.list_failed(ctx, most)
    names = lease_queries.get_names(ctx, {event.lease_id for event in events})
    return (_of_event(event, names.get(event.lease_id)) for event in events)


def _of_event(event: EventWork, lease_name: str | None) -> RecentChange:
    return RecentChange(
        event.due_at, "event", event.event_type, event.lease_id, lease_name,
        problem=event.problem)


def _of_threshold(reached: ReachedThreshold) -> RecentChange:
    subject = reached.measurement.subject
    return RecentChange(
        reached.reached_at, "threshold", subject.kind, subject.uuid, subject.resource_name,
        subject.node_id, reached=reached)


def _of_left_threshold(left: LeftThreshold) -> RecentChange:
    subject = left.subject
    return RecentChange(
        left.left_at, "threshold", subject.kind, subject.uuid, subject.resource_name,
        subject.node_id, left=left)
