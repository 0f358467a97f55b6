"""Nova's build requests, which say which instances were requested together.

Nova keeps a build request for each instance from the moment its API accepts the request until
the instance is in its cell, which is after quota was checked again. An instance that was
registered with this service has none. Source: spec nova_quota N6.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Collection, Mapping

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.cells import tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import failures, lists

LOG = logging.getLogger(__name__)

_requests = tables.build_requests
_INSTANCES = sa.select(_requests.c.instance_uuid, _requests.c.instance).where(
    lists.among(_requests.c.instance_uuid, "uuids"))


@db.retry_writes
def list_reservation_ids(
    ctx: Context, cells: CellDatabases, uuids: Collection[str]
) -> Mapping[str, str]:
    """Return {instance uuid: ``reservation_id``} of the instances that nova is building.

    The instances of one request have the same ``reservation_id``; no others have it. Where
    nova's table cannot be read, nobody has one.
    """
    api = cells.api(ctx)
    if api is ctx or not uuids:
        return {}
    try:
        with db.read_once(api) as session:
            rows = session.execute(_INSTANCES, {"uuids": sorted(uuids)}).all()
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if not failures.is_unreadable_table(error):
            raise
        _log_unreadable(api.database.masked_url, failures.describe_error(error))
        return {}
    ids = {row.instance_uuid: _parse_reservation_id(row.instance) for row in rows}
    return {uuid: id_ for uuid, id_ in ids.items() if id_ is not None}


@functools.lru_cache
def _log_unreadable(database: str, reason: str) -> None:
    """Log that the table cannot be read; once, and not for each re-check."""
    LOG.warning(
        "%s in %s cannot be read (%s): each instance counts as a request of its own when its "
        "quota is checked again", _requests.name, database, reason)


def _parse_reservation_id(instance: str | None) -> str | None:
    """Return the ``reservation_id`` of a serialized nova Instance, or None."""
    try:
        id_ = json.loads(instance or "")["nova_object.data"]["reservation_id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return id_ if isinstance(id_, str) else None
