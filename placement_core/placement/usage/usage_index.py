"""The usage index: what every project uses, as arrays.

A question about a tree of projects sums the usage of all of them; from the
usage counters that costs as much as the tree is large. So a process keeps the
sums, and reads again those of projects whose counters changed (``changes``). It
loads them when it is first asked.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.db.database import Database
from placement_core.placement import tables
from placement_core.placement.allocations import usage_counters
from placement_core.placement.allocations.usage_counters import Part
from placement_core.plugin_api.counting import CONSUMERS

#: Up to so many changed projects are read by id, above all are.
_FEW = 1000

_counters, _moves, _projects, _classes = (
    tables.usage_counters, tables.moves, tables.projects, tables.resource_classes)


def _build_sums(
    of: sa.Table, moved: int, part: Part, *, named: bool, some: bool
) -> sa.Select[Any]:
    """Build the sums of counters, or of pairs; of all projects, or of some."""
    keys = (of.c.project_id, of.c.resource_class_id)
    names = (_projects.c.external_id, _classes.c.name) if named else ()
    sums = sa.select(
        part.number(of.c.project_id).label("project_id"), of.c.resource_class_id, *names,
        sa.func.sum(of.c.used).label("used"), sa.literal_column(str(moved)).label("moved"),
    ).where(part.condition).group_by(*keys, *names)
    if named:
        sums = (
            sums.select_from(of)
            .join(_projects, of.c.project_id == part.number(_projects.c.id))
            .outerjoin(_classes, _classes.c.id == of.c.resource_class_id))
    return sums.where(lists.among(of.c.project_id, part.parameter)) if some else sums


_PAIRS = Part(1, sa.true(), "ids")


def _build_statement(*, named: bool, some: bool) -> sa.CompoundSelect[Any]:
    return sa.union_all(
        *(_build_sums(_counters, 0, part, named=named, some=some)
          for part in usage_counters.PARTS),
        _build_sums(_moves, 1, _PAIRS, named=named, some=some))


_EVERY = _build_statement(named=True, some=False)
_SOME_NAMED = _build_statement(named=True, some=True)
#: Where the names are known: planning the joins costs more than the sums.
_SOME = _build_statement(named=False, some=True)
#: For PostgreSQL: elsewhere the text depends on the number of projects.
_SOME_PREPARED = db.PreparedRead(_SOME)


#: Given to usages, each once in a process and those that are forked from it.
_revisions = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class _NamesById:
    """What numbers in the database stand for; a project's never changes.

    :ivar classes: {id of a resource class, or ``tables.CONSUMERS_ID``: its name, or
        CONSUMERS}; None: the class was removed.
    """

    projects: Mapping[int, str]
    classes: Mapping[int, str | None]

    def add_names_of(self, sums: Sequence[Any]) -> _NamesById:
        """Return them with the names beside some sums."""
        return _NamesById(
            {**self.projects, **{row.project_id: row.external_id for row in sums}},
            {**self.classes, **{row.resource_class_id: row.name for row in sums},
             tables.CONSUMERS_ID: CONSUMERS})


_NO_NAMES = _NamesById({}, {})


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ProjectSet:
    """Projects whose usage is summed again and again.

    Usages remember where its projects are for as long as it lives; so it is told from
    others by identity, and never changes.
    """

    project_ids: Sequence[str]


class _Layout:
    """Which row of the columns is which project's.

    Usages that number their projects alike share one. Rows mean nothing without it, so it
    keeps for itself which rows a set of projects has, and nobody else sees them.
    """

    __slots__ = ("_of_sets", "rows")

    def __init__(self, rows: Mapping[str, int]) -> None:
        self.rows = rows
        self._of_sets: weakref.WeakKeyDictionary[ProjectSet, np.ndarray] = (
            weakref.WeakKeyDictionary())

    def find_rows(self, projects: ProjectSet) -> np.ndarray:
        """Return the rows of those projects that have one."""
        rows = self._of_sets.get(projects)
        if rows is None:
            found_rows = (self.rows.get(project_id) for project_id in projects.project_ids)
            rows = np.array([row for row in found_rows if row is not None], dtype=np.intp)
            self._of_sets[projects] = rows
        return rows

    def extend(self, project_ids: Collection[str]) -> _Layout:
        """Return a layout that has rows for these projects, too."""
        if all(project_id in self.rows for project_id in project_ids):
            return self
        rows = dict(self.rows)
        for project_id in project_ids:
            rows.setdefault(project_id, len(rows))
        return _Layout(rows)


@dataclasses.dataclass(frozen=True, slots=True)
class Usages:
    """What every project uses; immutable.

    :ivar revision: another one whenever limits or the catalog changed, as far as this
        process saw: what was made of them before may be outdated.
    """

    _layout: _Layout
    #: {resource class or CONSUMERS: what is used of it, by row}.
    _columns: Mapping[str, np.ndarray]
    #: The same of what is counted there a second time (``moves``).
    _moved: Mapping[str, np.ndarray]
    revision: int = 0
    names: _NamesById = _NO_NAMES

    def total(self, projects: ProjectSet, resource_class: str) -> int:
        """Return what some projects use of a class together.

        What is being moved counts once.
        """
        rows = self._layout.find_rows(projects)
        return (_sum(self._columns, rows, resource_class)
                - _sum(self._moved, rows, resource_class))

    def has_usage(self, project_id: str) -> bool:
        """Say whether a project uses anything."""
        row = self._layout.rows.get(project_id)
        return row is not None and any(column[row] for column in self._columns.values())

    def by_project(
        self, project_ids: Iterable[str] | None = None, *, moves_once: bool
    ) -> dict[str, dict[str, int]]:
        """Return what projects use, each by itself; what is 0 is not there.

        :param project_ids: None: of all; those that never used anything are left out.
        :param moves_once: what is being moved counts once; otherwise only consumers do.
        :returns: {project: {resource class or CONSUMERS: used}}.
        """
        columns = {
            name: (column - self._moved[name]
                   if name in self._moved and (moves_once or name == CONSUMERS) else column
                   ).tolist()
            for name, column in self._columns.items()}
        rows = self._layout.rows
        return {
            project_id: {name: column[row] for name, column in columns.items() if column[row]}
            for project_id in (rows if project_ids is None else project_ids)
            if (row := rows.get(project_id)) is not None}


def _sum(columns: Mapping[str, np.ndarray], rows: np.ndarray, resource_class: str) -> int:
    column = columns.get(resource_class)
    return 0 if column is None else int(column[rows].sum())


class UsageIndex:
    """Hands out the present usages. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh, "usage")

    def usages(self, ctx: Context) -> Usages:
        """Return usages with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value

    def by_project(
        self, ctx: Context, project_ids: Collection[str] | None = None, *, moves_once: bool
    ) -> Mapping[str, Mapping[str, int]]:
        """Return what projects use, as ``project_usage.read``: cheaper for many of them.

        It knows what is committed, whatever the transaction of ``ctx`` has done.
        """
        return self.usages(ctx).by_project(project_ids, moves_once=moves_once)

    def renew_usages(self, ctx: Context) -> Usages:
        """Return the same, asked for because something surely changed.

        The one question that ``usages`` would ask first is saved.
        """
        return self._follower.renewed(ctx).value

    def revision(self, ctx: Context) -> int:
        """Return the revision of the usages that are known, however old; ask if none are."""
        version = self._follower.known
        return (self._follower.present(ctx) if version is None else version).value.revision


@db.retry_writes
def _refresh(ctx: Context, before: Version[Usages] | None) -> Version[Usages]:
    # Not one snapshot, which would cost a BEGIN and a COMMIT: what is read after the
    # vector may be newer than it, and is read again then.
    if before is None:
        with db.read_each(ctx) as session:
            now = vector.read_current(session)
            return Version(now, _load(session))
    now, changed = vector.follow(ctx, before.vector)
    if changed is None:
        with db.read_each(ctx) as session:
            return Version(now, _load(session))
    ids = sorted(ref for kind, ref in changed if kind == kinds.PROJECT)
    of_kinds = {kind for kind, _ in changed}
    revision = next(_revisions) if kinds.REVISION in of_kinds else before.value.revision
    if kinds.RESOURCE_CLASS in of_kinds or len(ids) > _FEW:
        with db.read_each(ctx) as session:
            return Version(now, _load(session, revision))
    value = _apply_changes(ctx, before.value, ids) if ids else before.value
    return Version(now, dataclasses.replace(value, revision=revision))


def _load(session: Session, revision: int | None = None) -> Usages:
    """Read what all projects use; a new revision unless one is handed in."""
    sums = session.execute(_EVERY).all()
    return _replace_sums(
        Usages(_Layout({}), {}, {}, next(_revisions) if revision is None else revision),
        (), sums, _NO_NAMES.add_names_of(sums))


def _apply_changes(ctx: Context, before: Usages, ids: list[int]) -> Usages:
    names = before.names
    if all(id_ in names.projects for id_ in ids):
        sums = _read_sums(ctx, ids)
        if all(row.resource_class_id in names.classes for row in sums):
            return _replace_sums(before, ids, sums, names)
    with db.read_each(ctx) as session:
        named = session.execute(_SOME_NAMED, usage_counters.ids(ids)).all()
    return _replace_sums(before, ids, named, names.add_names_of(named))


def _read_sums(ctx: Context, ids: list[int]) -> Sequence[Any]:
    if ctx.database.dialect == "postgresql":
        return _SOME_PREPARED.fetch(ctx, usage_counters.ids(ids))
    with db.read_each(ctx) as session:
        return session.execute(_SOME, usage_counters.ids(ids)).all()


def _replace_sums(
    before: Usages, ids: Iterable[int], sums: Iterable[Any], names: _NamesById
) -> Usages:
    """Return usages with all that some projects use now.

    :param ids: of projects that may have no counters any more; what they have is found.
    """
    used: dict[str, dict[str, int]] = {
        names.projects[id_]: {} for id_ in ids if id_ in names.projects}
    moved: dict[str, dict[str, int]] = {}
    for row in sums:
        resource_class = names.classes[row.resource_class_id]
        of_project = used.setdefault(names.projects[row.project_id], {})
        if row.moved:
            of_project = moved.setdefault(names.projects[row.project_id], {})
        if resource_class is not None:
            of_project[resource_class] = int(row.used)
    layout = before._layout.extend(used)
    at = np.array([layout.rows[project] for project in used], dtype=np.intp)
    return Usages(
        layout,
        _columns(before._columns, len(layout.rows), at, [used[project] for project in used]),
        _columns(before._moved, len(layout.rows), at,
                 [moved.get(project, {}) for project in used]),
        before.revision, names)


def _columns(
    before: Mapping[str, np.ndarray], length: int, at: np.ndarray,
    amounts: Sequence[Mapping[str, int]],
) -> dict[str, np.ndarray]:
    """Return columns in which some rows have other amounts."""
    columns = {}
    for name in before.keys() | {name for of_project in amounts for name in of_project}:
        column = np.zeros(length, dtype=np.int64)
        column_before = before.get(name)
        if column_before is not None:
            column[:len(column_before)] = column_before
        column[at] = [of_project.get(name, 0) for of_project in amounts]
        columns[name] = column
    return columns
