"""Lists of thousands of values as one parameter of a statement."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from placement_core.db import arrays


def among(column: sa.Column[Any], name: str, *, dialect: str) -> sa.ColumnElement[bool]:
    """Return whether ``column`` is among the values of the parameter ``name``, thousands even.

    The values are given as a list on every database.
    """
    if dialect == "postgresql":
        # It would compare each row with each member of an array; this it joins.
        given = sa.bindparam(name, type_=postgresql.ARRAY(column.type))
        return column.in_(sa.select(sa.func.unnest(given)))
    if dialect == "sqlite":
        # It takes no more than 32766 parameters.
        given = sa.bindparam(name, type_=sa.JSON)
        return column.in_(sa.select(sa.func.json_each(given).table_valued("value").c.value))
    return arrays.among(column, name, dialect=dialect)
