"""GET /capacity/v1/audit: who changed what."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core.changes import audit
from placement_core.changes.audit import AuditEntry, AuditFilter
from placement_core.http import pages
from placement_core.http.capacity_api.moments import parse_moment
from placement_core.http.operations import Call, Reply

_PATH = "/capacity/v1/audit"
#: The default size of a page.
_PAGE = 1000
_FILTERS = ("user_id", "project_id", "request_id", "operation", "kind", "uuid")


def list_(call: Call) -> Reply:
    """Return who changed what, the newest first."""
    page = call.parse_page()
    size = page.size or _PAGE
    filters = AuditFilter(
        **{name: pages.get_last(call.query, name) for name in _FILTERS},
        start_at=parse_moment(call.query, "from"), end_at=parse_moment(call.query, "to"))
    records = audit.list_(call.ctx, filters, marker=page.marker, limit=size + 1)
    listed, links = pages.split_page(
        f"{call.prefix}{_PATH}", call.query, records, size, lambda entry: entry.marker)
    return Reply(body={"entries": [render_entry(entry) for entry in listed], "links": links})


def render_entry(entry: AuditEntry) -> dict[str, Any]:
    """Return the document of an entry; ``transaction`` is the same for what was one commit."""
    document = dataclasses.asdict(entry)
    del document["marker"]
    document["transaction"] = f"{document.pop('txn'):x}"
    return document
