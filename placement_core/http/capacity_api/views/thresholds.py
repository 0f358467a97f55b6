"""GET /capacity/v1/thresholds: limits that fill up, and capacity that is short."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.thresholds import monitor

_PATH = "/capacity/v1/thresholds"
#: The default size of a page, and how many that were left are listed, the newest.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the thresholds that are reached now, and those that were left in the last week.

    The latter are on the first page.
    """
    page = call.parse_page()
    size = page.size or _PAGE
    records = monitor.list_(call.ctx, after=page.marker or "", limit=size + 1)
    listed, links = pages.split_page(
        f"{call.prefix}{_PATH}", call.query, records, size,
        lambda reached: reached.measurement.subject.uuid)
    left = [] if page.marker else monitor.list_left(call.ctx, _PAGE)
    return Reply(body={
        "thresholds": [monitor.render(reached) for reached in listed],
        "left": [monitor.render_left(each) for each in left], "links": links})
