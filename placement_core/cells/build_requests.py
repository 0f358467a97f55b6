"""Nova's build requests, which say which instances were requested together.

Nova keeps a build request for each instance from the moment its API accepts the request until
the instance is in its cell, which is after quota was checked again. An instance that was
registered with this service has none. Source: spec nova_quota N6.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import lists

_requests = tables.build_requests
_INSTANCES = sa.select(_requests.c.instance_uuid, _requests.c.instance).where(
    lists.among(_requests.c.instance_uuid, "uuids"))


@db.retry_writes
def list_reservation_ids(
    ctx: Context, cells: CellDatabases, uuids: Collection[str]
) -> Mapping[str, str]:
    """Return {instance uuid: ``reservation_id``} of the instances that nova is building.

    The instances of one request have the same ``reservation_id``; no others have it.
    """
    api = cells.api(ctx)
    if api is ctx or not uuids:
        return {}
    with db.read_once(api) as session:
        rows = session.execute(_INSTANCES, {"uuids": sorted(uuids)}).all()
    ids = {row.instance_uuid: _parse_reservation_id(row.instance) for row in rows}
    return {uuid: id_ for uuid, id_ in ids.items() if id_ is not None}


def _parse_reservation_id(instance: str | None) -> str | None:
    """Return the ``reservation_id`` of a serialized nova Instance, or None."""
    try:
        id_ = json.loads(instance or "")["nova_object.data"]["reservation_id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return id_ if isinstance(id_, str) else None
