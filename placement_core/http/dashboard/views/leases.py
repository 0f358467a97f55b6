"""``/leases``: the leases of a time as a calendar, by time, by host or by project."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from markupsafe import Markup

from placement_core.http import pages
from placement_core.http.dashboard import choices, projects, rendering, scopes
from placement_core.http.dashboard.panels import calendar
from placement_core.http.dashboard.panels.calendar import LeaseBar
from placement_core.http.dashboard.pictures import elements
from placement_core.http.dashboard.pictures.timeline import Period
from placement_core.http.errors import NotAllowed
from placement_core.http.leases_api import dates, policies
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.reservations import Window
from placement_core.recent_changes import Scope
from placement_core.reservations import records
from placement_core.reservations.errors import HostNotFound, InvalidLease
from placement_core.reservations.hosts import host_calendar, host_queries

#: The rules of the page; only some callers may know on which hosts leases are.
RULES = (*scopes.LEASE_RULES, policies.HOSTS_ALLOCATIONS)

_PATH = "/leases"
#: How many leases, or hosts, a page has.
_MOST_LEASES, _MOST_HOSTS = 50, 25
_BEFORE = datetime.timedelta(days=1)
_WAYS = {"time": "by time", "host": "by host", "project": "by project"}
_STATUSES = (records.PENDING, records.ACTIVE, records.TERMINATED, records.ERROR)


@dataclasses.dataclass(frozen=True, slots=True)
class CalendarGroup:
    """A host or project with its leases; without one, all of a page.

    :ivar key: what ids of the page have of it.
    :ivar name: of a host, the id of a project; None: neither.
    :ivar href: of its page.
    """

    key: str
    name: str | None
    href: str | None
    leases: Sequence[LeaseBar]
    picture: Markup


def show(call: Call) -> Reply:
    """Show the leases of a time that the caller may see."""
    scope = scopes.find_scope_of_leases(call)
    project_id = pages.get_last(call.query, "project") or None
    if scope is None or (scope.project_id is not None and project_id not in (
            None, scope.project_id)):
        raise NotAllowed(policies.LEASES_GET)
    scope = Scope(scope.project_id or project_id)
    period = _parse_period(call)
    way = pages.get_last(call.query, "by") or "time"
    may_see_hosts = call.allows(policies.HOSTS_ALLOCATIONS)
    if not may_see_hosts and (way == "host" or pages.get_last(call.query, "host")):
        raise NotAllowed(policies.HOSTS_ALLOCATIONS)
    if way == "host":
        groups, marker = _list_hosts(call, scope, period)
    else:
        groups, marker = _list_leases(call, scope, period, by_project=way == "project")
    names = projects.find_names(call, {
        lease.project_id for group in groups for lease in group.leases})
    return rendering.render(
        call, "leases.html", title="Leases", groups=groups, period=period, names=names,
        ways=choices.make_choices(call, _PATH, "by", {
            value: text for value, text in _WAYS.items() if may_see_hosts or value != "host"},
            way), statuses=_STATUSES, may_see_hosts=may_see_hosts,
        fields={name: pages.get_last(call.query, name) or "" for name in (
            "by", "project", "host", "status", "start", "end")},
        next_url=choices.make_next_url(call, _PATH, marker))


def _list_leases(
    call: Call, scope: Scope, period: Period, *, by_project: bool
) -> tuple[list[CalendarGroup], str | None]:
    """Return the leases of a page, and the marker of the next one."""
    host_id = _find_host(call)
    if host_id == 0:
        return [], None
    page = calendar.read_leases(
        call, period, _MOST_LEASES, project_id=scope.project_id, host_id=host_id,
        status=pages.get_last(call.query, "status") or None,
        after=pages.get_last(call.query, choices.AFTER) or None)
    if not by_project:
        return ([_make_group(call, period, "all", None, None, page.leases)] if page.leases else [],
                page.next_id)
    leases_of: dict[str, list[LeaseBar]] = {}
    for lease in page.leases:
        leases_of.setdefault(lease.project_id, []).append(lease)
    return [_make_group(
        call, period, elements.make_key(project_id), project_id,
        projects.make_url(call, project_id), leases)
            for project_id, leases in sorted(leases_of.items())], page.next_id


def _list_hosts(
    call: Call, scope: Scope, period: Period
) -> tuple[list[CalendarGroup], str | None]:
    """Return the hosts of a page with the leases that have them, and the next one's marker."""
    host_id = _find_host(call)
    after = pages.get_last(call.query, choices.AFTER) or "0"
    if host_id == 0:
        return [], None
    if not (after.isascii() and after.isdigit() and len(after) < 10):
        raise InvalidLease(f"There is no host {after[:64]}.", choices.AFTER)
    hosts = host_calendar.page(
        call.ctx, Window(period.start_at, period.end_at), project_id=scope.project_id,
        host_id=host_id, after=int(after), limit=_MOST_HOSTS + 1)
    status = pages.get_last(call.query, "status")
    groups = [_make_group(
        call, period, str(host.id), host.name, rendering.make_url(
            rendering.get_mount(call), f"/hosts/{host.provider_uuid}", {}),
        [LeaseBar.of_share(share) for share in host.shares
         if status in (None, "", share.status)]) for host in hosts[:_MOST_HOSTS]]
    return ([group for group in groups if group.leases],
            str(hosts[_MOST_HOSTS - 1].id) if len(hosts) > _MOST_HOSTS else None)


def _make_group(
    call: Call, period: Period, key: str, name: str | None, href: str | None,
    leases: Sequence[LeaseBar],
) -> CalendarGroup:
    now = datetime.datetime.now(datetime.UTC)
    return CalendarGroup(key, name, href, leases, calendar.draw(
        call, f"leases-{key}", period, now, None, leases))


def _find_host(call: Call) -> int | None:
    """Return the host that the query string names; None: it names none; 0: there is none."""
    name = pages.get_last(call.query, "host")
    if not name:
        return None
    try:
        return host_queries.find(call.ctx, name).id
    except HostNotFound:
        return 0


def _parse_period(call: Call) -> Period:
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    start, end = (
        dates.parse_or_now(text, name) or now
        if (text := pages.get_last(call.query, name)) else None for name in ("start", "end"))
    start = start or now - _BEFORE
    period = Period(start, end or start + _BEFORE + calendar.AHEAD)
    if period.seconds <= 0:
        raise InvalidLease("The end must be later than the start.", "end")
    return period
