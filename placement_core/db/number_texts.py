"""What many rows say as one text.

A driver takes longer over a row than a database takes to write the text of it. Connections to
MariaDB and MySQL allow texts that are long enough (``database``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

BETWEEN_NUMBERS, BETWEEN_ROWS = " ", ","

#: How many digits the longest number has, with its sign.
_LONGEST_NUMBER = 20


def write_digits(number: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """Build the digits of a number."""
    return sa.cast(number, sa.String(_LONGEST_NUMBER))


def write_hex(text: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """Build the hexadecimal digits of a text in UTF-8, among which nothing separates."""
    return _Hex(text)


class _Hex(sa.ColumnElement[str]):
    """Hexadecimal digits."""

    type = sa.String()
    inherit_cache = True
    _traverse_internals = [("text", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(self, text: sa.ColumnElement[str]) -> None:
        self.text = text


@compiles(_Hex, "postgresql")
def _hex_on_postgresql(element: _Hex, compiler: Any, **options: Any) -> str:
    return f"encode(convert_to({compiler.process(element.text, **options)}, 'UTF8'), 'hex')"


@compiles(_Hex, "mysql")
def _hex_on_mysql(element: _Hex, compiler: Any, **options: Any) -> str:
    return f"HEX(CONVERT({compiler.process(element.text, **options)} USING utf8mb4))"


@compiles(_Hex, "sqlite")
def _hex_on_sqlite(element: _Hex, compiler: Any, **options: Any) -> str:
    return f"hex({compiler.process(element.text, **options)})"


def join(texts: Sequence[sa.ColumnElement[str]]) -> sa.ColumnElement[str]:
    """Build a row's texts as one; whoever reads it splits it at ``BETWEEN_NUMBERS``."""
    # No parameters: each would cost time with every execution.
    between = sa.literal_column(f"'{BETWEEN_NUMBERS}'", sa.String)
    return functools.reduce(lambda text, other: text.concat(between).concat(other), texts)


def gather(*numbers: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """Build the text of the numbers of all rows of a group, in any order; without rows, NULL."""
    return sa.func.aggregate_strings(join(list(map(write_digits, numbers))), BETWEEN_ROWS)
