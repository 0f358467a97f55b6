"""/capacity/v1/reservations/…: what could be leased, and what was.

Whether a lease would fit, and when, and what is free over time, does not tell who has
the rest.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from placement_core import errors
from placement_core.http import pages, validation
from placement_core.http.capacity_api import policies, windows
from placement_core.http.errors import NotAllowed
from placement_core.http.leases_api import bodies, dates, requests
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.reservations import Window
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.leases import history, notifications
from placement_core.reservations.manager import event_queue
from placement_core.reservations.records import HostHistoryEntry

_PATH = "/capacity/v1/reservations"
#: The default size of a page.
_PAGE = 1000
#: The most steps of a timeline in one answer; there are two for each lease at most.
_STEPS = 10_000

_YEAR = datetime.timedelta(days=365)

_RESERVATIONS = validation.Schema(bodies.RESERVATIONS, validation.is_uuid_like)


def what_if(call: Call) -> Reply:
    """Say whether a lease would be admitted; a refusal is that of the lease."""
    call.services.leases.what_if(call.ctx, requests.parse_new_lease(
        call.body, call.ctx.identity, policies.RESERVATIONS_WHAT_IF))
    return Reply(body={"fits": True})


def timeline(call: Call) -> Reply:
    """Return how much of the freepool is free over time, the first steps of it."""
    start_at = _parse_time(call, "start") or _now()
    end_at = _parse_time(call, "end") or start_at + _YEAR
    if not start_at < end_at:
        raise InvalidLease("end must be later than start.", "end")
    size = min(call.parse_page().size or _STEPS, _STEPS)
    free = call.services.leases.timeline(call.ctx, Window(start_at, end_at))
    steps = free.steps
    next_url = None
    if len(steps) > size:
        steps = steps[:size]
        next_url = pages.add_query(f"{call.prefix}{_PATH}/timeline", {
            **call.query, "start": [dates.format_lease_date(steps[-1].window.end_at)],
            "end": [dates.format_lease_date(end_at)]})
    return Reply(body={
        "timeline": [{
            **windows.render_window(step.window), "hosts": step.hosts, "vcpus": step.vcpus,
            "memory_mb": step.memory_mb, "disk_gb": step.disk_gb} for step in steps],
        "total": dataclasses.asdict(free.total), "links": {"next": next_url}})


def next_fit(call: Call) -> Reply:
    """Return the next window in which a lease of some reservations would fit."""
    caller = call.ctx.identity
    if caller.project_id is None:
        raise NotAllowed(policies.RESERVATIONS_NEXT_FIT)
    fit = call.services.leases.next_fit(
        call.ctx, caller.project_id, requests.parse_reservations(_parse_reservations(call)),
        since=_parse_time(call, "start"), seconds=_parse_seconds(call))
    return Reply(body={"next_fit": None if fit is None else {
        **windows.render_window(fit.window), "earliest": fit.earliest}})


def list_history(call: Call) -> Reply:
    """Return who held which hosts, from when to when."""
    page = call.parse_page()
    size = page.size or _PAGE
    rows = history.page(
        call.ctx, project_id=pages.get_last(call.query, "project_id"),
        host=pages.get_last(call.query, "host"), since=_parse_time(call, "start"),
        until=_parse_time(call, "end"), after=page.marker, limit=size + 1)
    next_url = None if len(rows) <= size else pages.make_next_url(
        f"{call.prefix}{_PATH}/history", call.query, rows[size - 1].marker)
    return Reply(body={
        "history": [_render_holding(row) for row in rows[:size]], "links": {"next": next_url}})


def list_notices(call: Call) -> Reply:
    """Return what was done to leases, the oldest first; a next page may come later."""
    page = call.parse_page()
    after = int(page.marker or 0)
    notices = notifications.page(
        call.ctx, after=after, project_id=pages.get_last(call.query, "project_id"),
        lease_id=pages.get_last(call.query, "lease_id"), limit=page.size or _PAGE)
    next_url = pages.make_next_url(
        f"{call.prefix}{_PATH}/notices", call.query,
        str(notices[-1].position if notices else after))
    return Reply(body={
        "notices": [dataclasses.asdict(notice) for notice in notices],
        "links": {"next": next_url}})


def retry_event(call: Call) -> Reply:
    """Let an event that was given up be tried again."""
    event_queue.retry(call.ctx, call.path["id"])
    return Reply(204)


def _render_holding(holding: HostHistoryEntry) -> dict[str, Any]:
    fields = dataclasses.asdict(holding)
    del fields["marker"], fields["window"]
    return {**fields, **windows.render_window(holding.window)}


def _parse_reservations(call: Call) -> list[dict[str, Any]]:
    """Read the reservations in the query: the list of a lease's body.

    :raises errors.Invalid: they are no such list.
    """
    text = call.query["reservations"][-1]
    document = validation.parse_body(text.encode())
    problem = _RESERVATIONS.validate(document)
    if problem is not None:
        raise validation.InvalidQuery(problem)
    if not document:
        raise InvalidLease("Missing parameter reservations", "reservations")
    reservations: list[dict[str, Any]] = document
    return reservations


def _parse_seconds(call: Call) -> int:
    minutes, seconds = (pages.get_last(call.query, key) for key in ("minutes", "seconds"))
    if (minutes is None) == (seconds is None):
        raise errors.Invalid("How long the lease lasts is said by minutes, or by seconds.")
    return int(seconds or 0) + 60 * int(minutes or 0)


def _parse_time(call: Call, key: str) -> datetime.datetime | None:
    text = pages.get_last(call.query, key)
    return None if text is None else dates.parse_or_now(text, key)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
