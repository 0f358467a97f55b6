"""Columns that start with, end with or contain a text, whatever characters are in it.

LIKE does not tell a from A on SQLite, whose GLOB does, with patterns of its own.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

Where = Literal["startswith", "endswith", "contains"]

#: What patterns give a meaning of its own.
_LIKE_MARKS = re.compile(r"[/%_]")
_GLOB_MARKS = re.compile(r"[\[*?]")


class _Pattern(sa.types.TypeDecorator[str]):
    """A text as the pattern of what has it somewhere."""

    impl = sa.String
    cache_ok = True

    def __init__(self, where: Where, *, ignore_case: bool) -> None:
        super().__init__()
        self.where = where
        self.ignore_case = ignore_case

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        if value is None:
            return None
        if dialect.name == "sqlite" and not self.ignore_case:
            anything, text = "*", _GLOB_MARKS.sub(r"[\g<0>]", value)
        else:
            anything, text = "%", _LIKE_MARKS.sub(r"/\g<0>", value)
        before = "" if self.where == "startswith" else anything
        after = "" if self.where == "endswith" else anything
        return f"{before}{text}{after}"


class _MatchesCase(sa.ColumnElement[bool]):
    """``column LIKE pattern``, where upper and lower case differ."""

    type = sa.Boolean()
    inherit_cache = True
    _traverse_internals = [
        ("column", sa.sql.visitors.InternalTraversal.dp_clauseelement),
        ("pattern", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(
        self, column: sa.ColumnElement[str], pattern: sa.ColumnElement[str]
    ) -> None:
        self.column = column
        self.pattern = pattern

    def self_group(self, against: Any = None) -> Self:
        """Stay a condition: SQLAlchemy would compare it with 1 where it takes it for a value."""
        return self


def matches(
    column: sa.ColumnElement[str], name: str, where: Where, *, ignore_case: bool = False
) -> sa.ColumnElement[bool]:
    """Build whether a column has the text of the parameter ``name`` somewhere."""
    pattern = sa.bindparam(name, type_=_Pattern(where, ignore_case=ignore_case))
    if ignore_case:
        return sa.func.lower(column).like(sa.func.lower(pattern), escape="/")
    return _MatchesCase(column, pattern)


@compiles(_MatchesCase)
def _like(element: _MatchesCase, compiler: Any, **options: Any) -> str:
    condition = element.column.like(element.pattern, escape="/")
    return f"({compiler.process(condition, **options)})"


@compiles(_MatchesCase, "sqlite")
def _glob(element: _MatchesCase, compiler: Any, **options: Any) -> str:
    condition = element.column.op("GLOB", is_comparison=True)(element.pattern)
    return f"({compiler.process(condition, **options)})"
