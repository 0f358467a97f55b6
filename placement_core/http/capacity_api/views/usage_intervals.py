"""Usage intervals: GET /capacity/v1/usage/intervals, and their sums, /usage/totals."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core.http import pages
from placement_core.http.capacity_api import tables
from placement_core.http.capacity_api.moments import parse_moment
from placement_core.http.operations import Call, Reply
from placement_core.placement.records import UNKNOWN_TYPE
from placement_core.placement.usage import intervals
from placement_core.placement.usage.intervals import UsageFilter, UsageInterval

_PATH = "/capacity/v1/usage/intervals"
#: The default size of a page.
_PAGE = 1000
_COLUMNS = ("consumer_uuid", "consumer_type", "project_id", "user_id", "provider_uuid",
            "resource_class", "amount", "started_at", "ended_at")
_TOTAL_COLUMNS = ("project_id", "resource_class", "amount_seconds")


def list_(call: Call) -> Reply:
    """Return who held what from when to when, by consumer and beginning."""
    page = call.parse_page()
    size = page.size or _PAGE
    records = intervals.list_(
        call.ctx, _parse_filter(call.query), marker=page.marker, limit=size + 1)
    listed, links = pages.split_page(
        f"{call.prefix}{_PATH}", call.query, records, size, lambda interval: interval.marker)
    rows = [_render(interval) for interval in listed]
    if _wants_csv(call):
        return tables.reply_csv(_COLUMNS, rows, links["next"])
    return Reply(body={
        "intervals": rows, "complete_since": intervals.get_complete_since(call.ctx),
        "links": links})


def show_totals(call: Call) -> Reply:
    """Return what projects used over some time, in amounts times seconds."""
    totals = [dataclasses.asdict(total)
              for total in intervals.add_up(call.ctx, _parse_filter(call.query))]
    if _wants_csv(call):
        return tables.reply_csv(_TOTAL_COLUMNS, totals)
    return Reply(body={
        "totals": totals, "complete_since": intervals.get_complete_since(call.ctx)})


def _parse_filter(query: pages.Query) -> UsageFilter:
    return UsageFilter(
        pages.get_last(query, "project_id"), pages.get_last(query, "user_id"),
        pages.get_last(query, "consumer_uuid"), pages.get_last(query, "resource_class"),
        parse_moment(query, "from"), parse_moment(query, "to"))


def _wants_csv(call: Call) -> bool:
    return pages.get_last(call.query, "format") == "csv"


def _render(interval: UsageInterval) -> dict[str, Any]:
    document = {name: getattr(interval, name) for name in _COLUMNS}
    document["consumer_type"] = interval.consumer_type or UNKNOWN_TYPE
    document["started_at"] = interval.started_at.isoformat()
    document["ended_at"] = interval.ended_at and interval.ended_at.isoformat()
    return document
