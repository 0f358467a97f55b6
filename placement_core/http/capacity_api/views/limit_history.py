"""GET /capacity/v1/limits/history: who changed which limit from what to what."""

from __future__ import annotations

import dataclasses

from placement_core.http import pages
from placement_core.http.capacity_api.queries import HISTORY_FIELDS
from placement_core.http.operations import Call, Reply
from placement_core.limits import history

_PATH = "/capacity/v1/limits/history"
#: Of a page whose size nobody named: a history only grows.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the changes that pass every filter of the query, the newest first."""
    page = pages.parse_page(call.query)
    size = page.size or _PAGE
    wanted = {name: call.query[name][-1] for name in HISTORY_FIELDS if name in call.query}
    found = history.list_(
        call.ctx, marker=int(page.marker) if page.marker else None, limit=size + 1,
        **wanted)  # type: ignore[arg-type]  # (kind is one of the schema's)
    following = None
    if len(found) > size:
        found = found[:size]
        following = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, str(found[-1].id))
    return Reply(body={
        "changes": [dataclasses.asdict(item) for item in found],
        "links": {"next": following}})
