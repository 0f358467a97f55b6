"""The history of limits: who changed which limit, written in the transaction of the change."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.db import Session, clock, lists, texts
from placement_core.db.metadata import utcnow
from placement_core.limits import errors, regions, tables
from placement_core.limits.records import Action, AnyLimit, Change, Kind, Limit, RegisteredLimit

_history = tables.limit_history

_SECONDS_A_DAY = 86_400

_INSERT = sa.insert(_history).inline()
_ALL = sa.select(_history).order_by(_history.c.id.desc())
_MOST = sa.bindparam("most", type_=sa.Integer)
#: Ids rise with time, except for differences of clocks, so the oldest rows come first.
_FRONT = sa.select(_history.c.id, _history.c.at).order_by(_history.c.id).limit(_MOST).subquery()
_OLD = sa.select(_FRONT.c.id).where(
    _FRONT.c.at < clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger)))
_DELETE = sa.delete(_history).where(lists.among(_history.c.id, "ids"))
_MARKED = sa.select(_history.c.id).where(_history.c.id == sa.bindparam("marker"))


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A change that is about to be committed."""

    action: Action
    limit: AnyLimit
    old_value: int | None
    new_value: int | None


def created(limit: AnyLimit) -> HistoryEntry:
    """Return the entry of a created limit."""
    return HistoryEntry("created", limit, None, value(limit))


def updated(before: AnyLimit, after: AnyLimit) -> HistoryEntry:
    """Return the entry of an updated limit."""
    return HistoryEntry("updated", after, value(before), value(after))


def deleted(limit: AnyLimit) -> HistoryEntry:
    """Return the entry of a deleted limit."""
    return HistoryEntry("deleted", limit, value(limit), None)


def value(limit: AnyLimit) -> int:
    """Return the value of a limit of any kind."""
    return limit.default_limit if isinstance(limit, RegisteredLimit) else limit.resource_limit


def kind(limit: AnyLimit) -> Kind:
    """Return which kind of limit a record is."""
    if isinstance(limit, RegisteredLimit):
        return "registered_limit"
    return "limit" if isinstance(limit, Limit) else "user_limit"


def write(ctx: Context, session: Session, entries: Sequence[HistoryEntry]) -> None:
    """Insert changes, with the caller who made them, and record them in the change log."""
    if not entries:
        return
    now = utcnow()
    session.execute(_INSERT, [
        {
            "at": now, "action": entry.action, "kind": kind(entry.limit),
            "limit_uuid": entry.limit.id, "service_id": entry.limit.service_id,
            "region_key": regions.key(entry.limit.region_id),
            "resource_name": entry.limit.resource_name,
            "project_id": getattr(entry.limit, "project_id", None),
            "domain_id": getattr(entry.limit, "domain_id", None),
            "user_id": getattr(entry.limit, "user_id", None),
            "old_value": entry.old_value, "new_value": entry.new_value,
            "by_user_id": ctx.identity.user_id, "by_project_id": ctx.identity.project_id,
            "request_id": ctx.request_id,
        }
        for entry in entries])
    for entry in entries:
        session.record_change(
            kind(entry.limit), uuid=entry.limit.id, name=entry.limit.resource_name,
            project=getattr(entry.limit, "project_id", None) or "")


@db.retry_writes
def list_(
    ctx: Context, *, kind: Kind | None = None, limit_id: str | None = None,
    service_id: str | None = None, region_id: str | None = None,
    resource_name: str | None = None, project_id: str | None = None,
    domain_id: str | None = None, user_id: str | None = None,
    marker: int | None = None, limit: int | None = None,
) -> list[Change]:
    """Return the changes that match all filters, the newest first.

    :param marker: the id of the last change of the previous page.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such change.
    """
    filters = {
        "kind": kind, "limit_uuid": limit_id, "service_id": service_id,
        "region_key": region_id, "resource_name": resource_name, "project_id": project_id,
        "domain_id": domain_id, "user_id": user_id,
    }
    values: dict[str, Any] = {
        name: value for name, value in filters.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values()):
        return []
    statement = _statement(tuple(values), marker is not None, limit is not None)
    if marker is not None:
        values["marker"] = marker
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        rows = list(session.execute(statement, values))
    if not rows and marker is not None:
        with db.read_once(ctx) as session:
            if session.execute(_MARKED, {"marker": marker}).first() is None:
                raise errors.UnknownMarker(marker)
    return [_record(row) for row in rows]


@db.retry_writes
def prune(ctx: Context, *, keep_days: int, most: int) -> int:
    """Delete the oldest changes that are older than some days; return how many.

    To delete all, repeat it until it deletes none. Any number of processes may do so at the
    same time.

    :param most: how many rows are checked.
    """
    with db.write(ctx) as session:
        ids = list(session.execute(
            _OLD, {"keep_seconds": keep_days * _SECONDS_A_DAY, "most": most}).scalars())
        if ids:
            session.execute(_DELETE, {"ids": ids})
    metrics.count_removed_rows(_history.name, len(ids))
    return len(ids)


@functools.cache
def _statement(names: tuple[str, ...], before_marker: bool, limited: bool) -> sa.Select[Any]:
    statement = _ALL.where(*(_history.c[name] == sa.bindparam(name) for name in names))
    if before_marker:
        statement = statement.where(_history.c.id < sa.bindparam("marker"))
    if limited:
        statement = statement.limit(_MOST)
    return statement


def _record(row: sa.Row[Any]) -> Change:
    return Change(
        row.id, row.at.replace(tzinfo=datetime.UTC), row.action, row.kind, row.limit_uuid,
        row.service_id, regions.id_(row.region_key), row.resource_name, row.project_id,
        row.domain_id, row.user_id, row.old_value, row.new_value, row.by_user_id,
        row.by_project_id, row.request_id)
