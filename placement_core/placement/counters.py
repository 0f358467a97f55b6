"""Usage counters: how much projects and users use, kept by the claims themselves.

A counter is split over slots, so that the claims of one project do not queue on
one row; its value is the sum over the slots, and a slot alone may be negative.
Counters are a transaction's last locks before the change log. Source: design §4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, arrays
from placement_core.placement import tables

_counters = tables.usage_counters

#: (project id, user id, consumer type id or UNTYPED, resource class id or CONSUMERS)
Key: TypeAlias = tuple[int, int, int, int]

#: How many rows one counter is split over. Whoever asks for usage reads all of them: the
#: guard does with each claim. A row is held for two statements and the commit.
SLOTS = 8


def _add_on_mysql() -> sa.Insert:
    insert = mysql.insert(_counters).inline()
    return insert.on_duplicate_key_update(used=_counters.c.used + insert.inserted.used)


def _add_by_conflict(insert: Any) -> sa.Insert:
    return insert.on_conflict_do_update(
        index_elements=list(_counters.primary_key),
        set_={"used": _counters.c.used + insert.excluded.used})


_ADD = {
    "mysql": _add_on_mysql(),
    "postgresql": _add_by_conflict(arrays.insert(
        postgresql.insert(_counters).inline(), _counters, _counters.c.keys())),
    "sqlite": _add_by_conflict(sqlite.insert(_counters).inline()),
}


def add(ctx: Context, session: Session, changes: Mapping[Key, int]) -> None:
    """Add ``changes`` to the counters, in the thread's own slot."""
    slot = ctx.database.journal.slot() % SLOTS
    added = [
        {"project_id": project, "user_id": user, "consumer_type_id": consumer_type,
         "resource_class_id": resource_class, "slot": slot, "used": change}
        for (project, user, consumer_type, resource_class), change in sorted(changes.items())
        if change
    ]
    if added:
        session.change(
            _ADD[session.dialect],
            arrays.columns(added) if session.dialect == "postgresql" else added)
    for row in added:
        session.touch(kinds.PROJECT, row["project_id"])
