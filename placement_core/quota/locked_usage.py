"""Usage of projects whose limit nodes are locked, read in the claim's transaction.

It takes one statement, which also returns the revision of limits and the catalog, so that
the caller notices a change since it read its limits. The cost is proportional to the number
of counters, so this is for small trees; the usage index is for large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core.changes import revisions
from placement_core.changes.tables import revisions as revision_rows
from placement_core.db import PreparedRead, Session, TransactionConflict, lists
from placement_core.placement import tables
from placement_core.placement.allocations import usage_counters
from placement_core.plugin_api.counting import CONSUMERS

#: The largest number of projects whose usage is read.
MOST_PROJECTS = 100

_counters, _moves, _projects, _classes = (
    tables.usage_counters, tables.moves, tables.projects, tables.resource_classes)

_REVISION, _PROJECT, _USED = range(3)
_NO_NUMBER, _NO_TEXT = sa.literal_column("0", sa.BigInteger), sa.cast(sa.null(), sa.String(255))


def _branch(
    what: int, text: sa.ColumnElement[Any], first: sa.ColumnElement[Any],
    second: sa.ColumnElement[Any] = _NO_NUMBER,
) -> sa.Select[Any]:
    """Build one branch of the union: its label, a text and two numbers."""
    return sa.select(sa.literal_column(str(what)).label("what"), text.label("text"),
                     first.label("first"), second.label("second"))


def _used() -> sa.Select[Any]:
    """Build the usage of projects, by the ids of their rows.

    By ids, with names added afterwards: a query plan that was made while there were few
    projects would scan all of them for their names. As integers: drivers are slow at decimals.
    """
    rows = sa.union_all(
        *(sa.select(part.number(_counters.c.project_id).label("project_id"),
                    _counters.c.resource_class_id, _counters.c.used)
          .where(lists.among(_counters.c.project_id, part.parameter),
                 part.condition)
          for part in usage_counters.PARTS),
        sa.select(_moves.c.project_id, _moves.c.resource_class_id, -_moves.c.used)
        .where(lists.among(_moves.c.project_id, "ids"))).subquery()
    sums = (
        sa.select(rows.c.project_id, rows.c.resource_class_id,
                  sa.cast(sa.func.sum(rows.c.used), sa.BigInteger).label("used"))
        .group_by(rows.c.project_id, rows.c.resource_class_id).subquery())
    return _branch(_USED, _classes.c.name, sums.c.project_id, sums.c.used).select_from(
        sums.outerjoin(_classes, _classes.c.id == sums.c.resource_class_id))


_READ = PreparedRead(sa.union_all(
    _branch(_REVISION, _NO_TEXT, revision_rows.c.serial, revision_rows.c.txn)
    .where(revision_rows.c.name == revisions.LIMITS),
    _branch(_PROJECT, _projects.c.external_id, _projects.c.id)
    .where(lists.among(_projects.c.id, "ids")),
    _used()))


def read(
    session: Session, project_ids: Mapping[str, int]
) -> tuple[str, dict[tuple[str, str], int]]:
    """Return the revision of limits and catalog, as ``revisions.read`` does, and usages.

    A consumer that moves counts once. What the transaction itself adds to counters and
    pairs is not written yet, so it is not included.

    :param project_ids: {project: the id of its row}.
    :returns: usages are {(project, resource class or CONSUMERS): used}.
    :raises TransactionConflict: the rows differ: one was removed as unused, or another database
        was restored.
    """
    revision, present = "", {}
    used: dict[tuple[str, str], int] = {}
    names = {id_: name for name, id_ in project_ids.items()}
    for what, text, first, second in _READ.fetch_in(session, usage_counters.ids(names)):
        if what == _USED:
            key = names[first], text or CONSUMERS
            used[key] = used.get(key, 0) + second
        elif what == _PROJECT:
            present[first] = text
        else:
            revision = revisions.format_revision(first, second)
    if present != names:
        raise TransactionConflict
    return revision, used
