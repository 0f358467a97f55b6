"""``/projects``: the trees of projects, with what each has of a resource."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import choices, rendering, sections
from placement_core.http.dashboard.panels import projects
from placement_core.http.operations import Call, Reply

_PATH = "/projects"
_MOST_ROWS, _MOST_LIMITS = 500, 20


def show(call: Call) -> Reply:
    """Show what projects use of a resource, may have, and could still have."""
    first = int(pages.get_last(call.query, choices.AFTER) or 0)
    section = sections.read(call, policies.QUOTA_LIST, lambda: projects.read_tree(
        call, _PATH, pages.get_last(call.query, "resource"), first=first, most=_MOST_ROWS,
        most_limits=_MOST_LIMITS))
    tree = section.content
    marker = None
    if tree is not None and first + len(tree.rows) < tree.count:
        marker = str(first + len(tree.rows))
    return rendering.render(
        call, "projects.html", title="Projects", section=section,
        next_url=choices.make_next_url(call, _PATH, marker))
