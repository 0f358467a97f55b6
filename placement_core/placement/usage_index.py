"""The usage index: what every project uses, as arrays.

A question about a tree of projects sums the usage of all of them; from the
usage counters that costs as much as the tree is large. So a process keeps the
sums, and reads again those of projects whose counters changed (``changes``). It
loads them when it is first asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
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

_counters, _moves, _projects, _classes = (
    tables.usage_counters, tables.moves, tables.projects, tables.resource_classes)


def _sums(of: sa.Table, moved: int, dialect: str | None, *, named: bool) -> sa.Select[Any]:
    """Build the sums of counters, or of pairs; of some projects, or (None) of all."""
    keys = (of.c.project_id, of.c.resource_class_id)
    names = (_projects.c.external_id, _classes.c.name) if named else ()
    sums = sa.select(
        *keys, *names, sa.func.sum(of.c.used).label("used"),
        sa.literal_column(str(moved)).label("moved")).group_by(*keys, *names)
    if named:
        sums = (
            sums.select_from(of)
            .join(_projects, _projects.c.id == of.c.project_id)
            .outerjoin(_classes, _classes.c.id == of.c.resource_class_id))
    return sums if dialect is None else sums.where(
        arrays.among(of.c.project_id, "ids", dialect=dialect))


def _statement(dialect: str | None, *, named: bool) -> sa.CompoundSelect[Any]:
    return sa.union_all(
        _sums(_counters, 0, dialect, named=named), _sums(_moves, 1, dialect, named=named))


_DIALECTS = ("postgresql", "mysql", "sqlite")
_EVERY = _statement(None, named=True)
_SOME_NAMED = {dialect: _statement(dialect, named=True) for dialect in _DIALECTS}
#: Where the names are known: planning the joins costs more than the sums.
_SOME = {dialect: _statement(dialect, named=False) for dialect in _DIALECTS}
_SOME_ON_POSTGRESQL = db.Question(_SOME["postgresql"])


@dataclasses.dataclass(frozen=True, slots=True)
class _Names:
    """What numbers in the database stand for; a project's never changes.

    :ivar classes: {id of a resource class, or ``tables.CONSUMERS``: its name, or
        CONSUMERS}.
    """

    projects: Mapping[int, str]
    classes: Mapping[int, str]

    def with_those_of(self, found: Sequence[Any]) -> _Names:
        """Return them with the names beside some sums."""
        return _Names(
            {**self.projects, **{row.project_id: row.external_id for row in found}},
            {**self.classes, **{row.resource_class_id: row.name or CONSUMERS for row in found}})


_NO_NAMES = _Names({}, {})


@dataclasses.dataclass(frozen=True, slots=True)
class Usages:
    """What every project uses; immutable.

    :ivar rows: {project: its place in the columns}; projects that never used
        anything are not there.
    :ivar columns: {resource class or CONSUMERS: what is used of it, by row}.
    :ivar moved: the same of what is counted there a second time (``moves``).
    :ivar revision: rises when limits or the catalog changed, as far as this
        process saw: what was made of them before may be outdated.
    """

    rows: Mapping[str, int]
    columns: Mapping[str, np.ndarray]
    moved: Mapping[str, np.ndarray]
    revision: int = 0
    names: _Names = _NO_NAMES

    def rows_of(self, projects: Iterable[str]) -> np.ndarray:
        """Return the rows of those projects that have one."""
        known = (self.rows.get(project) for project in projects)
        return np.array([row for row in known if row is not None], dtype=np.intp)

    def total(self, rows: np.ndarray, resource_class: str) -> int:
        """Return what the projects of some rows use of a class together.

        What is being moved counts once.
        """
        return self.total_twice(rows, resource_class) - _sum(self.moved, rows, resource_class)

    def total_twice(self, rows: np.ndarray, resource_class: str) -> int:
        """Return the same, where what is being moved counts where it was, too."""
        return _sum(self.columns, rows, resource_class)


def _sum(columns: Mapping[str, np.ndarray], rows: np.ndarray, resource_class: str) -> int:
    column = columns.get(resource_class)
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

    def settled(self, ctx: Context) -> Usages:
        """Return the same, asked for because something surely changed.

        The one question that ``usages`` would ask first is saved.
        """
        return self._follower.renewed(ctx).value

    def revision(self, ctx: Context) -> int:
        """Return the revision of the usages that are known, however old; ask if none are."""
        known = self._follower.known
        return (self._follower.present(ctx) if known is None else known).value.revision


def of(database: Database) -> UsageIndex:
    """Return the usage index of a database: one for all who ask in this process."""
    index: UsageIndex | None = database.kept.get(UsageIndex)
    return index or database.kept.setdefault(UsageIndex, UsageIndex(database))


@db.retry_writes
def _refresh(ctx: Context, before: Version[Usages] | None) -> Version[Usages]:
    # Not one snapshot, which would cost a BEGIN and a COMMIT: what is read after the
    # vector may be newer than it, and is read again then.
    if before is None:
        with db.read_each(ctx) as session:
            now = vector.current(session)
            return Version(now, _loaded(session, 1))
    now, changed = vector.follow(ctx, before.vector)
    if changed is None:
        with db.read_each(ctx) as session:
            return Version(now, _loaded(session, before.value.revision + 1))
    ids = sorted(ref for kind, ref in changed if kind == kinds.PROJECT)
    of_kinds = {kind for kind, _ in changed}
    revision = before.value.revision + (kinds.REVISION in of_kinds)
    if kinds.RESOURCE_CLASS in of_kinds or len(ids) > _FEW:
        with db.read_each(ctx) as session:
            return Version(now, _loaded(session, revision))
    value = _changed(ctx, before.value, ids) if ids else before.value
    return Version(now, dataclasses.replace(value, revision=revision))


def _loaded(session: Session, revision: int) -> Usages:
    found = session.execute(_EVERY).all()
    names = _NO_NAMES.with_those_of(found)
    return dataclasses.replace(_with(Usages({}, {}, {}), found, names), revision=revision)


def _changed(ctx: Context, before: Usages, ids: list[int]) -> Usages:
    names = before.names
    if all(id_ in names.projects for id_ in ids):
        found = _sums_of(ctx, ids)
        if all(row.resource_class_id in names.classes for row in found):
            return _with(before, found, names)
    with db.read_each(ctx) as session:
        named = session.execute(_SOME_NAMED[session.dialect], {"ids": ids}).all()
    return _with(before, named, names.with_those_of(named))


def _sums_of(ctx: Context, ids: list[int]) -> Sequence[Any]:
    if ctx.database.url.get_backend_name() == "postgresql":
        return _SOME_ON_POSTGRESQL.ask(ctx, {"ids": ids})
    with db.read_each(ctx) as session:
        return session.execute(_SOME[session.dialect], {"ids": ids}).all()


def _with(before: Usages, found: Iterable[Any], names: _Names) -> Usages:
    """Return usages with all that some projects use now."""
    used: dict[str, dict[str, int]] = {}
    moved: dict[str, dict[str, int]] = {}
    for row in found:
        amounts = moved if row.moved else used
        of_project = amounts.setdefault(names.projects[row.project_id], {})
        of_project[names.classes[row.resource_class_id]] = int(row.used)
    rows = before.rows
    if not used.keys() <= rows.keys():
        rows = dict(rows)
        for project in used:
            rows.setdefault(project, len(rows))
    at = np.array([rows[project] for project in used], dtype=np.intp)
    return Usages(
        rows, _columns(before.columns, len(rows), at, [used[project] for project in used]),
        _columns(before.moved, len(rows), at, [moved.get(project, {}) for project in used]),
        before.revision, names)


def _columns(
    before: Mapping[str, np.ndarray], length: int, at: np.ndarray,
    amounts: Sequence[Mapping[str, int]],
) -> dict[str, np.ndarray]:
    """Return columns in which some rows have other amounts."""
    columns = {}
    for name in before.keys() | {name for each in amounts for name in each}:
        column = np.zeros(length, dtype=np.int64)
        known = before.get(name)
        if known is not None:
            column[:len(known)] = known
        column[at] = [each.get(name, 0) for each in amounts]
        columns[name] = column
    return columns
