"""Lists of values as one parameter of a statement: ``among`` and ``among_many``.

One statement for any number of values, on every database. PostgreSQL takes an array,
SQLite a JSON text where there are thousands; elsewhere the list becomes as many parameters
as it has values (SQLAlchemy's "expanding" ones). The values are given as a list always.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles


class _Among(sa.BinaryExpression[bool]):
    """``column IN (values)``, which each database is told in its own way."""

    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        condition = column.in_(sa.bindparam(name, expanding=True))
        # Without ``negate``: what is negated is the whole, whatever it is compiled to.
        super().__init__(condition.left, condition.right, condition.operator,
                         type_=condition.type)

    def bind(self, type_: Any) -> sa.BindParameter[Any]:
        """Return the parameter as one value of a type."""
        return sa.bindparam(self.right.key, type_=type_)


class _AmongMany(_Among):
    """The same for thousands of values."""

    inherit_cache = True


def among(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """Build whether ``column`` is among the values of the parameter ``name``."""
    return _Among(column, name)


def among_many(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """Build the same for a list that may have thousands of values."""
    return _AmongMany(column, name)


@compiles(_Among, "postgresql")
def _in_array(element: _Among, compiler: Any, **options: Any) -> str:
    array = element.bind(postgresql.ARRAY(element.left.type))
    return str(compiler.process(element.left == sa.any_(array), **options))


@compiles(_AmongMany, "postgresql")
def _in_rows_of_array(element: _AmongMany, compiler: Any, **options: Any) -> str:
    # It would compare each row with each member of an array; this it joins.
    array = element.bind(postgresql.ARRAY(element.left.type))
    return str(compiler.process(
        element.left.in_(sa.select(sa.func.unnest(array))), **options))


@compiles(_AmongMany, "sqlite")
def _in_json(element: _AmongMany, compiler: Any, **options: Any) -> str:
    # It takes no more than 32766 parameters.
    values = sa.func.json_each(element.bind(sa.JSON)).table_valued("value").c.value
    return str(compiler.process(element.left.in_(sa.select(values)), **options))
