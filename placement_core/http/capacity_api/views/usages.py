"""GET /capacity/v1/usages: what all projects use."""

from __future__ import annotations

from typing import Any

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.placement.usage import usage_list
from placement_core.placement.usage.usage_list import ListedUsage

_PATH = "/capacity/v1/usages"
#: The default size of a page.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return what projects use that use anything, by their ids."""
    page = call.parse_page()
    usage_page = usage_list.list_(call.ctx, marker=page.marker, limit=page.size or _PAGE)
    return Reply(body={
        "usages": [render(usage) for usage in usage_page.usages],
        "links": {"next": None if usage_page.next_marker is None else pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, usage_page.next_marker)}})


def render(usage: ListedUsage) -> dict[str, Any]:
    """Return the document of what a project uses."""
    return {"project_id": usage.project_id, "consumer_count": usage.consumer_count,
            "resources": usage.resources}
