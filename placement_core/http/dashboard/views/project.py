"""``/project?id=…``: what a project uses and may have, and who has the most of it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from markupsafe import Markup

from placement_core import amounts
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import projects, rendering, scopes, sections
from placement_core.http.dashboard.panels import calendar, projects as panel
from placement_core.http.dashboard.panels.calendar import LeaseBar
from placement_core.http.dashboard.pictures import bars, elements
from placement_core.http.dashboard.pictures.bars import BarPart
from placement_core.http.dashboard.pictures.timeline import Period
from placement_core.http.errors import NotAllowed
from placement_core.http.leases_api import policies as lease_policies
from placement_core.http.limits_api import visibility
from placement_core.http.operations import Call, Reply
from placement_core.limits import history
from placement_core.limits.records import Change
from placement_core.quota import top_consumers, usage
from placement_core.quota.records import LimitUsage
from placement_core.quota.top_consumers import TopConsumer
from placement_core.quota.usage import ResourceQuota

#: The rules of the page and of its sections.
RULES = (policies.QUOTA_OF_ALL, policies.EXPLAIN_QUOTA, policies.LIMIT_HISTORY,
         *scopes.LEASE_RULES)
_MOST_LEASES, _MOST_CONSUMERS, _MOST_CHANGES = 50, 10, 20


@dataclasses.dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit that binds the project.

    :ivar node_id: of the project or domain whose limit it is.
    :ivar limit: None: unlimited.
    """

    node_id: str
    usage: LimitUsage
    limit: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaRow:
    """A resource of the project.

    :ivar limit: None: unlimited; ``free`` None: that, or not known.
    :ivar chain: the limits that bind it, the nearest first.
    """

    name: str
    quota: ResourceQuota
    limit: int | None
    free: int | None
    chain: Sequence[LimitRow]
    bar: Markup


@dataclasses.dataclass(frozen=True, slots=True)
class TopOfResource:
    """The largest consumers of a resource."""

    resource_name: str
    consumers: Sequence[TopConsumer]


def show(call: Call) -> Reply:
    """Show what a project uses, the limits that bind it, its leases and largest consumers."""
    project_id = call.query["id"][-1]
    if not visibility.can_see(call, panel.get_visibility(call), project_id):
        raise NotAllowed(policies.QUOTA_SHOW)
    quota = usage.get_project_quota(call.ctx, call.services.quota, project_id)
    names = projects.find_names(call, {project_id, *(
        bound.node_id for each in quota.resources.values() for bound in each.chain)})
    rows = [_make_row(name, each) for name, each in quota.resources.items()]
    return rendering.render(
        call, "project.html", title=names.get(project_id, project_id), project_id=project_id,
        names=names, rows=rows,
        missing_cells=() if quota.count is None else quota.count.missing_cells,
        leases=sections.read(
            call, lease_policies.LEASES_GET, lambda: _read_leases(call, project_id)),
        consumers=sections.read(call, policies.EXPLAIN_QUOTA, lambda: _find_largest(
            call, project_id, [row.name for row in rows if row.quota.used])),
        history=sections.read(
            call, policies.LIMIT_HISTORY, lambda: _list_history(call, project_id)))


def _make_row(name: str, quota: ResourceQuota) -> QuotaRow:
    limit, free = _find_limit(quota.limit), None if quota.free is None else _find_limit(quota.free)
    used = quota.used or 0
    parts = [BarPart("used", used), BarPart("free", free or 0)]
    return QuotaRow(
        name, quota, limit, free, [
            LimitRow(bound.node_id, bound, _find_limit(bound.limit)) for bound in quota.chain],
        bars.draw_bar(f"quota-{elements.make_key(name)}", name, parts, limit=limit))


def _find_limit(amount: amounts.Amount) -> int | None:
    return None if amount == amounts.UNLIMITED else int(amount)


def _read_leases(call: Call, project_id: str) -> tuple[Sequence[LeaseBar], Markup | None]:
    """Return the leases of the project in the next days, with a picture if there are any."""
    scope = scopes.find_scope_of_leases(call)
    if scope is None or scope.project_id not in (None, project_id):
        return [], None
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    period = Period(now, now + calendar.AHEAD)
    leases = calendar.read_leases(
        call, period, _MOST_LEASES, project_id=project_id).leases
    return leases, calendar.draw(
        call, "project-leases", period, now, None, leases) if leases else None


def _find_largest(call: Call, project_id: str, names: Sequence[str]) -> list[TopOfResource]:
    """Return the largest consumers of each resource that the project uses."""
    queries = call.services.quota
    return [TopOfResource(name, top_consumers.find_largest(
        call.ctx, queries.cells, [project_id], queries.units([name]), most=_MOST_CONSUMERS,
        moves_once=queries.counting.moves_once))
        for name in names]


def _list_history(call: Call, project_id: str) -> list[Change]:
    scope = scopes.find_scope(call, policies.LIMIT_HISTORY)
    if scope is None or scope.project_id not in (None, project_id):
        return []
    return history.list_(call.ctx, project_id=project_id, limit=_MOST_CHANGES)
