"""The usage index: what every project uses, as arrays.

A question about a tree of projects sums the usage of all of them; from the
usage counters that costs as much as the tree is large. So a process keeps the
sums, and reads again those of projects whose counters changed (``changes``). It
loads them when it is first asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.context import Context
from placement_core.db import Session, arrays
from placement_core.db.database import Database
from placement_core.placement import tables

#: Among the resource classes: how many consumers there are.
CONSUMERS = ""
#: Up to so many changed projects are read by id, above all are.
_FEW = 1000

_counters, _projects, _classes = (
    tables.usage_counters, tables.projects, tables.resource_classes)

_EVERY = (
    sa.select(_counters.c.project_id, _projects.c.external_id, _classes.c.name,
              sa.func.sum(_counters.c.used).label("used"))
    .join(_projects, _projects.c.id == _counters.c.project_id)
    .outerjoin(_classes, _classes.c.id == _counters.c.resource_class_id)
    .group_by(_counters.c.project_id, _projects.c.external_id, _classes.c.name)
)
_SOME = {
    dialect: _EVERY.where(arrays.among(_counters.c.project_id, "ids", dialect=dialect))
    for dialect in ("postgresql", "mysql", "sqlite")}


@dataclasses.dataclass(frozen=True, slots=True)
class Usages:
    """What every project uses at one moment; immutable.

    :ivar rows: {project: its place in the columns}; projects that never used
        anything are not there.
    :ivar columns: {resource class or CONSUMERS: what is used of it, by row}.
    :ivar revision: rises when limits or the catalog changed, as far as this
        process saw: what was made of them before may be outdated.
    """

    rows: Mapping[str, int]
    columns: Mapping[str, np.ndarray]
    revision: int = 0

    def rows_of(self, projects: Iterable[str]) -> np.ndarray:
        """Return the rows of those projects that have one."""
        known = (self.rows.get(project) for project in projects)
        return np.array([row for row in known if row is not None], dtype=np.intp)

    def total(self, rows: np.ndarray, resource_class: str) -> int:
        """Return what the projects of some rows use of a class together."""
        column = self.columns.get(resource_class)
        return 0 if column is None else int(column[rows].sum())


class UsageIndex:
    """Hands out the present usages. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh)

    def usages(self, ctx: Context) -> Usages:
        """Return usages with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value


@db.retry_writes
def _refresh(ctx: Context, before: Version[Usages] | None) -> Version[Usages]:
    with db.read(ctx) as session:
        now = vector.current(session)
        changed = None if before is None else vector.since(session, before.vector, now)
        if before is None or changed is None:
            old = 0 if before is None else before.value.revision
            return Version(now, _loaded(session, old + 1))
        ids = sorted(ref for kind, ref in changed if kind == kinds.PROJECT)
        of_kinds = {kind for kind, _ in changed}
        revision = before.value.revision + (kinds.REVISION in of_kinds)
        if kinds.RESOURCE_CLASS in of_kinds or len(ids) > _FEW:
            return Version(now, _loaded(session, revision))
        return Version(now, dataclasses.replace(
            _changed(session, before.value, ids), revision=revision))


def _loaded(session: Session, revision: int) -> Usages:
    return dataclasses.replace(
        _with(Usages({}, {}), session.execute(_EVERY)), revision=revision)


def _changed(session: Session, before: Usages, ids: list[int]) -> Usages:
    if not ids:
        return before
    return _with(before, session.execute(_SOME[session.dialect], {"ids": ids}))


def _with(before: Usages, found: Iterable[sa.Row[Any]]) -> Usages:
    """Return usages with all that some projects use now."""
    used: dict[str, dict[str, int]] = {}
    for row in found:
        used.setdefault(row.external_id, {})[row.name or CONSUMERS] = int(row.used)
    rows = before.rows
    if not used.keys() <= rows.keys():
        rows = dict(rows)
        for project in used:
            rows.setdefault(project, len(rows))
    at = np.array([rows[project] for project in used], dtype=np.intp)
    columns = {}
    for name in before.columns.keys() | {name for amounts in used.values() for name in amounts}:
        column = np.zeros(len(rows), dtype=np.int64)
        known = before.columns.get(name)
        if known is not None:
            column[:len(known)] = known
        column[at] = [amounts.get(name, 0) for amounts in used.values()]
        columns[name] = column
    return Usages(rows, columns, before.revision)
