"""GET /capacity/v1/thresholds: limits that fill up, and capacity that is short."""

from __future__ import annotations

from placement_core.http.operations import Call, Reply
from placement_core.thresholds import monitor

#: How many that were left are listed, the newest.
_MOST_LEFT = 1000


def list_(call: Call) -> Reply:
    """Return the thresholds that are reached now, and those that were left in the last week."""
    return Reply(body={
        "thresholds": [monitor.render(reached) for reached in monitor.list_(call.ctx)],
        "left": [monitor.render_left(left) for left in monitor.list_left(call.ctx, _MOST_LEFT)]})
