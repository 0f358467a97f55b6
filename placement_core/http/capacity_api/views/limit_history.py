"""GET /capacity/v1/limits/history: who changed which limit from what to what."""

from __future__ import annotations

import dataclasses

from placement_core.http import pages
from placement_core.http.capacity_api.queries import HISTORY_FIELDS
from placement_core.http.operations import Call, Reply
from placement_core.limits import history

_PATH = "/capacity/v1/limits/history"
#: The default size of a page: a history only grows.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the changes that pass every filter of the query, the newest first."""
    page = call.parse_page()
    size = page.size or _PAGE
    filters = {name: call.query[name][-1] for name in HISTORY_FIELDS if name in call.query}
    changes = history.list_(
        call.ctx, marker=int(page.marker) if page.marker else None, limit=size + 1,
        **filters)  # type: ignore[arg-type]  # (kind is one of the schema's)
    next_url = None
    if len(changes) > size:
        changes = changes[:size]
        next_url = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, str(changes[-1].id))
    return Reply(body={
        "changes": [dataclasses.asdict(change) for change in changes],
        "links": {"next": next_url}})
