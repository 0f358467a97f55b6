"""Usage of projects whose limit nodes are locked, read in the claim's transaction.

It takes one statement, which also returns the revision of limits and the catalog, so that
the caller notices a change since it read its limits. The cost is proportional to the number
of counters, so this is for small trees; the usage index is for large ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import revisions
from placement_core.changes.tables import revisions as revision_rows
from placement_core.db import PreparedRead, Session, TransactionConflict, lists
from placement_core.db.number_texts import write_digits
from placement_core.placement import tables
from placement_core.placement.allocations import usage_counters
from placement_core.placement.usage.usage_index import ProjectSet
from placement_core.plugin_api.counting import CONSUMERS

#: The largest number of projects whose usage is read.
MOST_PROJECTS = 100

_counters, _moves, _projects, _classes = (
    tables.usage_counters, tables.moves, tables.projects, tables.resource_classes)

_REVISION, _PROJECTS, _USED = range(3)
_BETWEEN_NUMBERS = ","
_MINUS = "-"
#: Between projects; a name that contains it does no harm.
_BETWEEN_NAMES = "\n"


class ProjectRows:
    """Projects whose usage is read again and again, with the ids of their rows."""

    __slots__ = ("ids", "keys", "projects", "texts")

    def __init__(self, ids: Mapping[str, int]) -> None:
        """Take the projects that have a row.

        :param ids: {project: the id of its row}.
        """
        self.projects = ProjectSet(tuple(ids))
        self.ids = ids
        #: The ids in digits.
        self.keys = {name: str(id_) for name, id_ in ids.items()}
        #: What the statement returns of them if their rows are still there.
        self.texts = _split(_BETWEEN_NAMES.join(
            [f"{key}{_BETWEEN_NUMBERS}{name}" for name, key in self.keys.items()]))


class LockedUsage:
    """The usage of some projects.

    :ivar revision: that of limits and catalog, as ``revisions.read`` returns it.
    :ivar is_positive: whether no project uses less than nothing, so that projects together use at
        least as much as some of them.
    """

    def __init__(
        self, revision: str, keys: Mapping[str, str],
        used: Mapping[str, Mapping[str, str | int]], *, is_positive: bool,
    ) -> None:
        """Initialize the usage.

        :param keys: {project: the id of its row, in digits}.
        :param used: {resource class or CONSUMERS: {id of a project's row: used}}; in the digits
            that the database returned, where they need not be added: few are asked for.
        """
        self.revision = revision
        self.is_positive = is_positive
        self._keys = keys
        self._used = used
        self._ids_of_sets: dict[ProjectSet, Sequence[str]] = {}

    def total(self, projects: ProjectSet, resource_class: str) -> int:
        """Return how much of a resource class, or of CONSUMERS, projects use together."""
        used = self._used.get(resource_class)
        if used is None:
            return 0
        ids = self._ids_of_sets.get(projects)
        if ids is None:
            # Projects without a row never used anything.
            keys = self._keys
            ids = self._ids_of_sets[projects] = [
                keys[project] for project in projects.project_ids if project in keys]
        return sum(map(int, map(used.get, ids, itertools.repeat("0"))))


def _split(projects: str) -> frozenset[str]:
    """Return the parts of a text of projects."""
    return frozenset(projects.split(_BETWEEN_NAMES)) - {""}


def _branch(
    what: int, text: sa.ColumnElement[str],
    name: sa.ColumnElement[Any] = sa.cast(sa.null(), sa.String(255)),  # noqa: B008
) -> sa.Select[Any]:
    """Build one branch of the union: its label, a name and a text."""
    return sa.select(
        sa.literal_column(str(what)).label("what"), name.label("name"), text.label("text"))


def _select_used() -> sa.Select[Any]:
    """Build the usage of projects, by the ids of their rows: one row for each resource class.

    One row, because a driver takes longer over a row than a database takes to write the text of
    it. A project may occur more than once in it: it is rare, and adding up here is cheap. By ids:
    a query plan that was made while there were few projects would scan all of them for their
    names.
    """
    rows = sa.union_all(
        *(sa.select(part.number(_counters.c.project_id).label("project_id"),
                    _counters.c.resource_class_id, _counters.c.used)
          .where(lists.among(_counters.c.project_id, part.parameter),
                 part.condition)
          for part in usage_counters.PARTS),
        sa.select(_moves.c.project_id, _moves.c.resource_class_id, -_moves.c.used)
        .where(lists.among(_moves.c.project_id, "ids"))).subquery()
    texts = (
        sa.select(rows.c.resource_class_id, sa.func.aggregate_strings(
            write_digits(rows.c.project_id).concat(_BETWEEN_NUMBERS).concat(write_digits(rows.c.used)),
            _BETWEEN_NUMBERS).label("text"))
        .group_by(rows.c.resource_class_id).subquery())
    return _branch(_USED, texts.c.text, _classes.c.name).select_from(
        texts.outerjoin(_classes, _classes.c.id == texts.c.resource_class_id)
    ).where(sa.or_(
        # Counters of a class that was removed may have stayed; they have no name either.
        _classes.c.id.is_not(None), texts.c.resource_class_id == tables.CONSUMERS_ID))


_READ = PreparedRead(sa.union_all(
    _branch(_REVISION, write_digits(revision_rows.c.serial).concat(_BETWEEN_NUMBERS).concat(
        write_digits(revision_rows.c.txn)))
    .where(revision_rows.c.name == revisions.LIMITS),
    _branch(_PROJECTS, sa.func.aggregate_strings(
        write_digits(_projects.c.id).concat(_BETWEEN_NUMBERS).concat(_projects.c.external_id),
        _BETWEEN_NAMES))
    .where(lists.among(_projects.c.id, "ids")),
    _select_used()))


def read(session: Session, rows: Collection[ProjectRows]) -> LockedUsage:
    """Read the usage of projects, and the revision of limits and catalog.

    A consumer that moves counts once. What the transaction itself adds to counters and
    pairs is not written yet, so it is not included.

    :raises TransactionConflict: the rows differ: one was removed as unused, or another database
        was restored.
    """
    ids: set[int] = set()
    keys: dict[str, str] = {}
    expected: set[str] = set()
    for each in rows:
        ids.update(each.ids.values())
        keys.update(each.keys)
        expected |= each.texts
    revision, present, is_positive = "", "", True
    used: dict[str, Mapping[str, str | int]] = {}
    for what, name, text in _READ.fetch_in(session, usage_counters.ids(ids)):
        if what == _USED:
            used[name or CONSUMERS] = _add_up(text.split(_BETWEEN_NUMBERS))
            is_positive = is_positive and _MINUS not in text
        elif what == _PROJECTS:
            present = text or ""
        else:
            serial, txn = text.split(_BETWEEN_NUMBERS)
            revision = revisions.format_revision(int(serial), int(txn))
    if _split(present) != expected:
        raise TransactionConflict
    return LockedUsage(revision, keys, used, is_positive=is_positive)


def _add_up(numbers: Sequence[str]) -> Mapping[str, str | int]:
    """Make {id of a project's row: used} of ids and amounts, alternately, in digits."""
    owners, amounts = numbers[::2], numbers[1::2]
    used: dict[str, str | int] = dict(zip(owners, amounts, strict=True))
    if len(used) < len(owners):
        used.clear()
        for owner, amount in zip(owners, amounts, strict=True):
            used[owner] = int(used.get(owner, 0)) + int(amount)
    return used
