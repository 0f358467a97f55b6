"""``/hosts``: all hosts, or a group of them, as a map and as a table."""

from __future__ import annotations

from placement_core import errors
from placement_core.http import pages
from placement_core.http.dashboard import choices, rendering
from placement_core.http.dashboard.panels import hosts
from placement_core.http.operations import Call, Reply

_PATH = "/hosts"


def show(call: Call) -> Reply:
    """Show hosts, in pages, each with how full it is."""
    resource_class = pages.get_last(call.query, "resource_class")
    survey = call.services.room.survey(call.ctx, resource_class)
    by = hosts.parse_grouping(call)
    group = hosts.find_group(survey, by, pages.get_last(call.query, "group"))
    if group is None:
        raise errors.NotFound("There are no hosts in such a group.")
    positions = survey.find_after(group.positions, pages.get_last(call.query, "after") or "")
    rows = hosts.make_rows(survey, positions[:hosts.MOST_CELLS].tolist())
    last = rows[-1][-1].name if len(positions) > hosts.MOST_CELLS else None
    is_group = "group" in call.query
    return rendering.render(
        call, "hosts.html", title="Hosts", by=by, resource_class=resource_class,
        keys=group.keys, is_group=is_group, count=len(group.positions), rows=rows,
        groups=[] if is_group else hosts.list_groups(survey, survey.group(by)),
        groupings=hosts.make_groupings(call, _PATH, by),
        next_url=choices.make_next_url(call, _PATH, last))
