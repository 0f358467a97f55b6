"""/capacity/v1/instances: the project, the user and the cell of instances."""

from __future__ import annotations

from typing import Any

from placement_core.cells import instances
from placement_core.cells.records import Instance
from placement_core.http import pages
from placement_core.http.operations import Call, Reply

_PATH = "/capacity/v1/instances"
#: The default size of a page: there are very many instances.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the instances that pass every filter of the query, the oldest first."""
    page = call.parse_page()
    size = page.size or _PAGE
    deleted = pages.get_last(call.query, "queued_for_delete")
    records = instances.list_(
        call.ctx, call.services.cells,
        project_id=pages.get_last(call.query, "project_id"),
        user_id=pages.get_last(call.query, "user_id"),
        cell=pages.get_last(call.query, "cell"),
        queued_for_delete=None if deleted is None else deleted == "true",
        marker=page.marker, limit=size + 1)
    next_url = None
    if len(records) > size:
        records = records[:size]
        next_url = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, records[-1].uuid)
    return Reply(body={
        "instances": [_render(instance) for instance in records], "links": {"next": next_url}})


def register(call: Call) -> Reply:
    """Register an instance; 200 if it was registered already."""
    instance, new = instances.register(call.ctx, call.services.cells, **call.body["instance"])
    return Reply(201 if new else 200, _wrap(instance), location=f"{_PATH}/{instance.uuid}")


def show(call: Call) -> Reply:
    """Return an instance; what its mapping lacks is fetched from its cell."""
    return Reply(body=_wrap(instances.get(call.ctx, call.services.cells, call.path["uuid"])))


def update(call: Call) -> Reply:
    """Set in which cell an instance is, or whether it is deleted."""
    return Reply(body=_wrap(instances.update(
        call.ctx, call.services.cells, call.path["uuid"], **call.body["instance"])))


def delete(call: Call) -> Reply:
    """Mark an instance as deleted."""
    instances.update(
        call.ctx, call.services.cells, call.path["uuid"], queued_for_delete=True)
    return Reply(204)


def _wrap(instance: Instance) -> dict[str, Any]:
    return {"instance": _render(instance)}


def _render(instance: Instance) -> dict[str, Any]:
    return {
        "uuid": instance.uuid, "project_id": instance.project_id, "user_id": instance.user_id,
        "cell_uuid": instance.cell_uuid, "queued_for_delete": instance.queued_for_delete,
        "created_at": instance.created_at, "updated_at": instance.updated_at}
