"""What projects use once their limit nodes are taken, read in the claim's transaction.

One statement, which also says whether limits and the catalog are what they were when the
bounds were made. It costs as much as there are counters, so it is for small trees; the
usage index is for large ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from placement_core.changes import revisions
from placement_core.changes.tables import revisions as revision_rows
from placement_core.db import Session, arrays, texts
from placement_core.placement import tables
from placement_core.plugin_api.counting import CONSUMERS

#: The usage of up to so many projects is read.
MOST_PROJECTS = 100

_counters, _moves, _projects, _classes = (
    tables.usage_counters, tables.moves, tables.projects, tables.resource_classes)


def _of_projects(of: sa.Table, sign: int, dialect: str) -> sa.Select[Any]:
    used = sa.func.sum(of.c.used)
    return (
        sa.select(
            _projects.c.external_id.label("project"), _classes.c.name.label("name"),
            (used if sign > 0 else -used).label("used"),
            sa.cast(sa.null(), sa.BigInteger).label("txn"))
        .select_from(_projects)
        .join(of, of.c.project_id == _projects.c.id)
        .outerjoin(_classes, _classes.c.id == of.c.resource_class_id)
        .where(arrays.among(_projects.c.external_id, "projects", dialect=dialect))
        .group_by(_projects.c.external_id, _classes.c.name))


_REVISION = sa.select(
    sa.cast(sa.null(), _projects.c.external_id.type), sa.cast(sa.null(), _classes.c.name.type),
    revision_rows.c.serial, revision_rows.c.txn,
).where(revision_rows.c.name == revisions.LIMITS)
_READ = {
    dialect: sa.union_all(
        _of_projects(_counters, 1, dialect), _of_projects(_moves, -1, dialect), _REVISION)
    for dialect in ("postgresql", "mysql", "sqlite")}


def read(
    session: Session, project_ids: Collection[str]
) -> tuple[str, dict[tuple[str, str], int]]:
    """Return the revision of limits and catalog, as ``revisions.ask`` does, and usages.

    A consumer that moves counts once. Not yet written is what the transaction itself
    adds to counters and pairs.

    :returns: usages are {(project, resource class or CONSUMERS): used}.
    """
    asked = sorted(each for each in project_ids if texts.storable(each))
    used: dict[tuple[str, str], int] = {}
    revision = ""
    for row in session.execute(_READ[session.dialect], {"projects": asked}):
        if row.project is None:
            revision = revisions.text(row.used, row.txn)
        else:
            key = row.project, row.name or CONSUMERS
            used[key] = used.get(key, 0) + int(row.used)
    return revision, used
