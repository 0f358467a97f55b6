"""Lists of limits: filters and pages, in one statement.

A list is in the order of creation. A page starts after its marker, the public id of the last
item of the previous page, so that items created or deleted meanwhile do not shift it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists, patterns, texts
from placement_core.limits import errors
from placement_core.limits.records import Filter

#: How many statements are cached; there is one for each combination of filters.
_MOST_STATEMENTS = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A column that a list can be filtered by.

    :ivar only: a further condition under which the column is this field.
    """

    column: sa.ColumnElement[Any]
    only: sa.ColumnElement[bool] | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ListQuery:
    """A kind of list.

    :ivar select: the rows, unordered.
    :ivar table: its ``id`` is the order, and its ``uuid`` the marker.
    :ivar fields: the fields of filters, by name.
    :ivar node: the column with the node of a limit, if visibility matters.
    """

    select: sa.Select[Any]
    table: sa.Table
    fields: Mapping[str, Field]
    node: sa.Column[Any] | None = None


def list_(
    ctx: Context, listing: ListQuery, filters: Sequence[Filter], *,
    visible: Collection[str] | None = None, marker: str | None = None, limit: int | None = None,
) -> list[sa.Row[Any]]:
    """Return the rows of a page.

    :param visible: the ids of nodes whose limits may be seen; None: all.
    :param marker: the public id of the last row of the previous page.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such row (any more).
    """
    if visible is not None and not visible:
        return []
    if not all(texts.is_storable(filter_.value)
               for filter_ in filters if filter_.value is not None):
        return []
    if marker is not None and not texts.is_storable(marker):
        raise errors.UnknownMarker(marker)
    shape = tuple((filter_.field, "missing" if filter_.value is None else filter_.operator)
                  for filter_ in filters)
    statement = _statement(
        listing, shape, visible is not None, marker is not None, limit is not None)
    values: dict[str, Any] = {
        f"value{place}": filter_.value
        for place, filter_ in enumerate(filters) if filter_.value is not None}
    if visible is not None:
        values["visible"] = sorted(visible)
    if marker is not None:
        values["marker"] = marker
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        rows = list(session.execute(statement, values))
    if not rows and marker is not None:
        with db.read_once(ctx) as session:
            if session.execute(_marked(listing), {"marker": marker}).first() is None:
                raise errors.UnknownMarker(marker)
    return rows


def read(
    session: Session, listing: ListQuery, *, ids: Collection[str] | None = None,
    after: int = 0, project_id: str | None = None, most: int | None = None,
) -> Sequence[sa.Row[Any]]:
    """Return rows in the order of creation, whatever was deleted since the last page.

    :param ids: only those of these public ids; None: all.
    :param after: only those with a greater key.
    :param project_id: only those of this project, if the rows have one.
    :param most: how many at most.
    """
    statement = listing.select.where(listing.table.c.id > after).order_by(listing.table.c.id)
    if ids is not None:
        statement = statement.where(lists.among_many(listing.table.c.uuid, "ids"))
    if project_id is not None:
        field = listing.fields["project_id"]
        statement = statement.where(field.column == project_id)
        if field.only is not None:
            statement = statement.where(field.only)
    return session.execute(
        statement.limit(most), {} if ids is None else {"ids": sorted(ids)}).all()


def by_id(session: Session, statement: sa.Select[Any], id_: str) -> sa.Row[Any] | None:
    """Return the row of a public id, if there is one.

    :param statement: selects the row whose ``uuid`` is ``:id_``.
    """
    if not texts.is_storable(id_):
        return None
    row = session.execute(statement, {"id_": id_}).first()
    # MySQL ignores trailing blanks in comparisons.
    return row if row is not None and row.uuid == id_ else None


@functools.lru_cache(_MOST_STATEMENTS)
def _statement(
    listing: ListQuery, shape: tuple[tuple[str, str], ...], restricted: bool, after_marker: bool,
    limited: bool,
) -> sa.Select[Any]:
    statement = listing.select.order_by(listing.table.c.id)
    for place, (name, operator) in enumerate(shape):
        field = listing.fields[name]
        if operator == "missing":
            statement = statement.where(field.column == "")
            continue
        statement = statement.where(
            _condition(field.column, operator, f"value{place}"))
        if field.only is not None:
            statement = statement.where(field.only)
    if restricted:
        assert listing.node is not None
        statement = statement.where(lists.among_many(listing.node, "visible"))
    if after_marker:
        statement = statement.where(listing.table.c.id > _marked(listing).scalar_subquery())
    if limited:
        statement = statement.limit(sa.bindparam("most", type_=sa.Integer))
    return statement


def _marked(listing: ListQuery) -> sa.Select[Any]:
    other = listing.table.alias("marked")
    return sa.select(other.c.id).where(other.c.uuid == sa.bindparam("marker"))


def _condition(
    column: sa.ColumnElement[Any], operator: str, parameter: str
) -> sa.ColumnElement[bool]:
    """Build the comparison of a column; operators with an ``i`` in front ignore case."""
    ignore_case = operator.startswith("i")
    operator = operator.removeprefix("i")
    if operator != "equals":
        return patterns.matches(
            column, parameter, cast("patterns.Where", operator), ignore_case=ignore_case)
    value = sa.bindparam(parameter, type_=sa.String)
    if ignore_case:
        return sa.func.lower(column) == sa.func.lower(value)
    return column == value
