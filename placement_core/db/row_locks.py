"""Locking rows with an UPDATE, in the order of a key.

MySQL locks the rows of an UPDATE in the order of the index that it reads, SQLite the whole
file. PostgreSQL locks them in the order of its plan, which may differ between two
transactions; so there a subquery locks them first.
"""

from __future__ import annotations

from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles


class _LockedInOrder(sa.ColumnElement[bool]):
    """A condition whose rows are locked in the order of a key."""

    type = sa.Boolean()
    inherit_cache = True
    _traverse_internals = [
        ("key_column", sa.sql.visitors.InternalTraversal.dp_clauseelement),
        ("condition", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(
        self, key_column: sa.ColumnElement[Any], condition: sa.ColumnElement[bool]
    ) -> None:
        self.key_column = key_column
        self.condition = condition

    def self_group(self, against: Any = None) -> Self:
        """Stay a condition: SQLAlchemy would compare it with 1 where it takes it for a value."""
        return self


def locked_in_order(
    key_column: sa.ColumnElement[Any], condition: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Build a condition of an UPDATE that locks its rows in the order of a key.

    :param key_column: a unique key of the updated table.
    :param condition: which rows; about columns of that table alone.
    """
    return _LockedInOrder(key_column, condition)


@compiles(_LockedInOrder)
def _build_condition(element: _LockedInOrder, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.condition, **options)})"


@compiles(_LockedInOrder, "postgresql")
def _build_locking_subquery(element: _LockedInOrder, compiler: Any, **options: Any) -> str:
    locked = (
        sa.select(element.key_column).where(element.condition).order_by(element.key_column)
        .with_for_update(key_share=True).correlate(None).scalar_subquery())
    # As an array it is read once, and whole, before the first row is updated. The condition
    # is named twice: a plan made while there were few rows would scan them all.
    in_order = element.key_column == sa.any_(sa.func.array(locked))
    return f"({compiler.process(sa.and_(in_order, element.condition), **options)})"
