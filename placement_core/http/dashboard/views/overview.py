"""The overview: what I need, and the four questions at large."""

from __future__ import annotations

from collections.abc import Sequence

from placement_core.http import pages
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import need_answers, need_form, rendering, sections
from placement_core.http.dashboard.views import overview_sections
from placement_core.http.operations import Call, Reply

#: The classes that come first.
_FIRST = ("VCPU", "MEMORY_MB", "DISK_GB")


def show(call: Call) -> Reply:
    """Show the overview: answers to what I need, and room, limits and leases at large."""
    form = need_form.parse(call.query)
    answers = need_answers.read(call, form)
    classes = sections.read(call, policies.ROOM_SHOW, lambda: _list_classes(call)).content or ()
    resource_class = pages.get_last(call.query, "resource_class")
    if resource_class not in classes:
        resource_class = classes[0] if classes else None
    return rendering.render(
        call, "overview.html", title="Overview", status=400 if form.problems else 200,
        partial=answers is not None and answers.passing, form=form, answers=answers,
        classes=classes, resource_class=resource_class,
        **overview_sections.read(call, resource_class))


def _list_classes(call: Call) -> Sequence[str]:
    """Return the resource classes that there are inventories of."""
    snapshot = call.services.index.snapshot(call.ctx)
    names = {snapshot.names.class_names[class_id]
             for class_id, column in snapshot.columns.items() if len(column.rows)}
    first = [name for name in _FIRST if name in names]
    return [*first, *sorted(names.difference(first))]
