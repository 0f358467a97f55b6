"""/capacity/v1/instances: whose an instance is, and in which cell."""

from __future__ import annotations

from typing import Any

from placement_core.cells import instances
from placement_core.cells.records import Instance
from placement_core.http import pages
from placement_core.http.operations import Call, Reply

_PATH = "/capacity/v1/instances"
#: Of a page whose size nobody named: there are very many instances.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the instances that pass every filter of the query, the oldest first."""
    page = pages.parse_page(call.query)
    size = page.size or _PAGE
    deleted = pages.get_last(call.query, "queued_for_delete")
    found = instances.list_(
        call.ctx, call.services.cells,
        project_id=pages.get_last(call.query, "project_id"),
        user_id=pages.get_last(call.query, "user_id"),
        cell=pages.get_last(call.query, "cell"),
        queued_for_delete=None if deleted is None else deleted == "true",
        marker=page.marker, limit=size + 1)
    following = None
    if len(found) > size:
        found = found[:size]
        following = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, found[-1].uuid)
    return Reply(body={
        "instances": [_document(each) for each in found], "links": {"next": following}})


def register(call: Call) -> Reply:
    """Note whose an instance is; 200 if that was known already."""
    made, new = instances.register(call.ctx, call.services.cells, **call.body["instance"])
    return Reply(201 if new else 200, _one(made), location=f"{_PATH}/{made.uuid}")


def show(call: Call) -> Reply:
    """Return an instance; what its mapping lacks is fetched from its cell."""
    return Reply(body=_one(instances.get(call.ctx, call.services.cells, call.path["uuid"])))


def update(call: Call) -> Reply:
    """Say in which cell an instance is, or whether it is deleted."""
    return Reply(body=_one(instances.update(
        call.ctx, call.services.cells, call.path["uuid"], **call.body["instance"])))


def delete(call: Call) -> Reply:
    """Mark an instance as deleted."""
    instances.update(
        call.ctx, call.services.cells, call.path["uuid"], queued_for_delete=True)
    return Reply(204)


def _one(instance: Instance) -> dict[str, Any]:
    return {"instance": _document(instance)}


def _document(instance: Instance) -> dict[str, Any]:
    return {
        "uuid": instance.uuid, "project_id": instance.project_id, "user_id": instance.user_id,
        "cell_uuid": instance.cell_uuid, "queued_for_delete": instance.queued_for_delete,
        "created_at": instance.created_at, "updated_at": instance.updated_at}
