"""Lists of limits: filters and pages, in one statement.

A list is in the order of creation. A page goes on after its marker, the public id of
the last one seen, so that what is made or deleted meanwhile moves nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists, texts
from placement_core.limits import errors
from placement_core.limits.records import Filter

#: Statements are built once for each way to ask; clients choose the way.
_KEPT_STATEMENTS = 256

#: What patterns give a meaning of its own.
_LIKE_MARKS = re.compile(r"[/%_]")
_GLOB_MARKS = re.compile(r"[\[*?]")


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A column that a list can be filtered by.

    :ivar only: what must be true besides, for the column to mean the field.
    """

    column: sa.ColumnElement[Any]
    only: sa.ColumnElement[bool] | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A kind of list.

    :ivar select: the rows, unordered.
    :ivar table: whose ``id`` gives the order, and whose ``uuid`` is the marker.
    :ivar fields: what filters may name.
    :ivar node: the column that says whom a limit is for, where visibility matters.
    """

    select: sa.Select[Any]
    table: sa.Table
    fields: Mapping[str, Field]
    node: sa.Column[Any] | None = None


def list_(
    ctx: Context, listing: Listing, filters: Sequence[Filter], *,
    visible: Collection[str] | None = None, marker: str | None = None, limit: int | None = None,
) -> list[sa.Row[Any]]:
    """Return the rows of a page.

    :param visible: the ids of nodes whose limits may be seen; None: of all.
    :param marker: the public id of the last one of the page before.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such row (any more).
    """
    if visible is not None and not visible:
        return []
    if not all(texts.is_storable(each.value) for each in filters if each.value is not None):
        return []
    if marker is not None and not texts.is_storable(marker):
        raise errors.UnknownMarker(marker)
    shape = tuple((each.field, "missing" if each.value is None else each.operator)
                  for each in filters)
    dialect = ctx.database.dialect
    statement = _statement(listing, shape, visible is not None, marker is not None,
                           limit is not None, dialect)
    values: dict[str, Any] = {
        f"value{place}": _operand(each, dialect)
        for place, each in enumerate(filters) if each.value is not None}
    if visible is not None:
        values["visible"] = sorted(visible)
    if marker is not None:
        values["marker"] = marker
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        found = list(session.execute(statement, values))
    if not found and marker is not None:
        with db.read_once(ctx) as session:
            if session.execute(_marked(listing), {"marker": marker}).first() is None:
                raise errors.UnknownMarker(marker)
    return found


def by_id(session: Session, statement: sa.Select[Any], id_: str) -> sa.Row[Any] | None:
    """Return the row of a public id, if there is one.

    :param statement: selects the row whose ``uuid`` is ``:id_``.
    """
    if not texts.is_storable(id_):
        return None
    row = session.execute(statement, {"id_": id_}).first()
    # MySQL leaves blanks at the end out of account.
    return row if row is not None and row.uuid == id_ else None


@functools.lru_cache(_KEPT_STATEMENTS)
def _statement(
    listing: Listing, shape: tuple[tuple[str, str], ...], seen: bool, marked: bool,
    bounded: bool, dialect: str,
) -> sa.Select[Any]:
    statement = listing.select.order_by(listing.table.c.id)
    for place, (name, operator) in enumerate(shape):
        field = listing.fields[name]
        if operator == "missing":
            statement = statement.where(field.column == "")
            continue
        statement = statement.where(
            _condition(field.column, operator, sa.bindparam(f"value{place}", type_=sa.String),
                       dialect))
        if field.only is not None:
            statement = statement.where(field.only)
    if seen:
        assert listing.node is not None
        statement = statement.where(lists.among_many(listing.node, "visible"))
    if marked:
        statement = statement.where(listing.table.c.id > _marked(listing).scalar_subquery())
    if bounded:
        statement = statement.limit(sa.bindparam("most", type_=sa.Integer))
    return statement


def _marked(listing: Listing) -> sa.Select[Any]:
    other = listing.table.alias("marked")
    return sa.select(other.c.id).where(other.c.uuid == sa.bindparam("marker"))


def _condition(
    column: sa.ColumnElement[Any], operator: str, operand: sa.BindParameter[str], dialect: str
) -> sa.ColumnElement[bool]:
    given: sa.ColumnElement[str] = operand
    if operator.startswith("i"):
        column, given = sa.func.lower(column), sa.func.lower(operand)
    if operator in ("equals", "iequals"):
        return column == given
    if dialect == "sqlite" and not operator.startswith("i"):
        # LIKE does not tell a from A there.
        return column.op("GLOB", is_comparison=True)(given)
    return column.like(given, escape="/")


def _operand(filter_: Filter, dialect: str) -> str:
    """Return what a column is compared with: a text or a pattern."""
    assert filter_.value is not None
    operator = filter_.operator.removeprefix("i")
    if operator == "equals":
        return filter_.value
    if dialect == "sqlite" and not filter_.operator.startswith("i"):
        anything, text = "*", _GLOB_MARKS.sub(r"[\g<0>]", filter_.value)
    else:
        anything, text = "%", _LIKE_MARKS.sub(r"/\g<0>", filter_.value)
    before = "" if operator == "startswith" else anything
    after = "" if operator == "endswith" else anything
    return f"{before}{text}{after}"
