"""The four questions at large, below the form of the overview."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from placement_core.http import pages
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import scopes, sections
from placement_core.http.dashboard.panels import calendar, changes, hosts, projects, room
from placement_core.http.dashboard.panels.calendar import FreeTime, LeasePage
from placement_core.http.dashboard.pictures.timeline import Period
from placement_core.http.dashboard.sections import Section
from placement_core.http.operations import Call

#: The policy rules of the sections, for ``Operation.also``.
RULES = (
    policies.ROOM_SHOW, policies.ROOM_HOSTS, policies.ROOM_FITS, policies.QUOTA_LIST,
    policies.QUOTA_OF_ALL, policies.RESERVATIONS_TIMELINE, *changes.RULES,
    changes.WRITES_RULE, changes.REFUSALS_RULE, *scopes.LEASE_RULES)
#: How many rows each question has at most; the page that it leads to has all.
_MOST_PROJECTS, _MOST_LIMITS, _MOST_CHANGES, _MOST_WRITES, _MOST_LEASES = 40, 5, 20, 10, 20
_MOST_REFUSALS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class NextDays:
    """What is free in the next days, and the leases that the caller sees.

    :ivar leases: None: the caller may see none.
    """

    period: Period
    free: FreeTime
    leases: LeasePage | None
    picture: Markup


def read(call: Call, resource_class: str | None) -> Mapping[str, Section[Any]]:
    """Read the sections, by the names that the templates know them by.

    :param resource_class: of which the map shows how much is used; None: there is none.
    """
    by = hosts.parse_grouping(call)
    return {
        "room": sections.read(call, policies.ROOM_SHOW, lambda: room.read_room(call)),
        "shapes": sections.read(call, policies.ROOM_FITS, lambda: room.read_shapes(call)),
        "hosts": sections.read(
            call, policies.ROOM_HOSTS, lambda: hosts.read_map(
                call, "", by, resource_class)),
        "permission": sections.read(call, policies.QUOTA_LIST, lambda: projects.read_tree(
            call, "", pages.get_last(call.query, "resource"), first=0, most=_MOST_PROJECTS,
            most_limits=_MOST_LIMITS)),
        "happened": sections.read_any(call, changes.RULES, lambda: changes.read_changes(
            call, _MOST_CHANGES)),
        "refusals": changes.read_refusals(call, _MOST_REFUSALS),
        "writes": changes.read_writes(call, _MOST_WRITES),
        "time": sections.read(
            call, policies.RESERVATIONS_TIMELINE, lambda: _read_next_days(call)),
    }


def _read_next_days(call: Call) -> NextDays:
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    period = Period(now, now + calendar.AHEAD)
    free = calendar.read_free(call, period)
    scope = scopes.find_scope_of_leases(call)
    leases = None if scope is None else calendar.read_leases(
        call, period, _MOST_LEASES, project_id=scope.project_id)
    return NextDays(period, free, leases, calendar.draw(
        call, "time-picture", period, now, free, [] if leases is None else leases.leases))
