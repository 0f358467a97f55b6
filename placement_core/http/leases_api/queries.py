"""Query strings: filters and the order of lists.

The reference ignores every query string but those of allocations and properties, so unknown
keys are ignored here, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from placement_core.http import pages
from placement_core.http.leases_api import bodies, dates
from placement_core.http.operations import ONLY, Ladder
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import records
from placement_core.reservations.errors import InvalidLease

_TEXT = {"minLength": 1, "maxLength": 255}
#: Host ids are 31 bits.
_HOST = {"pattern": r"^[0-9]{1,9}\Z"}
_FLAG = {"pattern": bodies.FLAG}

#: {sort key of the API: field of the record}.
_KEYS = {"created_at": "number", "start_date": "start_at", "end_date": "end_at",
         "name": "name"}

_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC)


def _make_schema(properties: Mapping[str, Any]) -> Ladder[dict[str, Any]]:
    return Ladder({ONLY: {"type": "object", "properties": dict(properties)}})


LEASES = _make_schema({
    "status": {"enum": [
        records.PENDING, records.ACTIVE, records.TERMINATED, records.ERROR]},
    "name": _TEXT, "project_id": _TEXT, "host": _HOST,
    "from": _TEXT, "to": _TEXT,
    "sort": {"pattern": rf"^({'|'.join(_KEYS)})(:(asc|desc))?\Z"},
    "limit": pages.LIMIT, "marker": _TEXT,
})
HOSTS = _make_schema({"limit": pages.LIMIT, "marker": _HOST})
ALLOCATIONS = _make_schema({"lease_id": _TEXT, "reservation_id": _TEXT})
PROPERTIES = _make_schema({"detail": _FLAG, "all": _FLAG})


def parse_order(query: pages.Query) -> tuple[str, bool]:
    """Return the sort key of a list, and whether the order is descending."""
    key, _, direction = (pages.get_last(query, "sort") or "created_at").partition(":")
    return _KEYS[key], direction == "desc"


def parse_window(query: pages.Query) -> Window | None:
    """Return the window that leases must overlap.

    :raises InvalidLease: it is empty, or a date is invalid.
    """
    since, until = pages.get_last(query, "from"), pages.get_last(query, "to")
    if since is None and until is None:
        return None
    start_at = _FIRST if since is None else dates.parse(since, "from")
    end_at = _LAST if until is None else dates.parse(until, "to")
    if not start_at < end_at:
        raise InvalidLease("to must be later than from.", "to")
    return Window(start_at, end_at)


def parse_number(query: pages.Query, key: str) -> int | None:
    """Return the last value of a key as a number; None: the key is missing."""
    text = pages.get_last(query, key)
    return None if text is None else int(text)


def parse_flag(query: pages.Query, key: str) -> bool:
    """Return whether the last value of a key is true."""
    return (pages.get_last(query, key) or "").lower() == "true"
