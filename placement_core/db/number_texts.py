"""Numbers of many rows as one text.

A driver takes longer over a row than a database takes to write the text of it. Connections to
MariaDB and MySQL allow texts that are long enough (``database``).
"""

from __future__ import annotations

import functools

import sqlalchemy as sa

BETWEEN_NUMBERS, BETWEEN_ROWS = " ", ","

#: How many digits the longest number has, with its sign.
_LONGEST_NUMBER = 20


def write_digits(number: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """Build the digits of a number."""
    return sa.cast(number, sa.String(_LONGEST_NUMBER))


def gather(*numbers: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """Build the text of the numbers of all rows of a group, in any order; without rows, NULL."""
    row = functools.reduce(
        lambda text, other: text.concat(BETWEEN_NUMBERS).concat(other),
        map(write_digits, numbers))
    return sa.func.aggregate_strings(row, BETWEEN_ROWS)
