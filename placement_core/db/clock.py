"""The database's clock: what deadlines are set and judged by.

Machines disagree about the time; those that share a database share its clock. Times
are naive UTC with parts of a second, as ``DEADLINE`` columns keep them.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

#: The type of a column that is compared with ``now``. MySQL would round a DATETIME
#: to whole seconds.
DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SQLITE_FORMAT = "'%Y-%m-%d %H:%M:%f000'"


class _Second(sa.ColumnElement[int]):
    """The present in whole seconds since the epoch."""

    type = sa.BigInteger()
    inherit_cache = True
    _traverse_internals: list[Any] = []


class _InSeconds(sa.ColumnElement[datetime.datetime]):
    """The present and some seconds."""

    type = sa.DateTime()
    inherit_cache = True
    _traverse_internals = [("seconds", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(self, seconds: sa.ColumnElement[int]) -> None:
        self.seconds = seconds


class _Microseconds(sa.ColumnElement[int]):
    """A time in microseconds since the epoch."""

    type = sa.BigInteger()
    inherit_cache = True
    _traverse_internals = [("moment", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(self, moment: sa.ColumnElement[datetime.datetime]) -> None:
        self.moment = moment


def now() -> sa.ColumnElement[datetime.datetime]:
    """Build the present.

    PostgreSQL's is that of the moment when it is computed: a transaction or a
    statement that waited for a lock does not judge by the time when it began.
    """
    return in_seconds(sa.literal_column("0", sa.Integer))


def second() -> sa.ColumnElement[int]:
    """Build the second that is now, since the epoch."""
    return _Second()


def microseconds(moment: sa.ColumnElement[datetime.datetime]) -> sa.ColumnElement[int]:
    """Build a time, which is naive UTC, in microseconds since the epoch."""
    return _Microseconds(moment)


def to_microseconds(moment: datetime.datetime) -> int:
    """Return what ``microseconds`` selects for a time."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime.datetime:
    """Return the time for which ``microseconds`` selects a number.

    :raises OverflowError: there is no such time.
    """
    return _EPOCH + microseconds * _MICROSECOND


def in_seconds(seconds: sa.ColumnElement[int]) -> sa.ColumnElement[datetime.datetime]:
    """Build the moment in some seconds; negative ones are ago."""
    return _InSeconds(seconds)


@compiles(_InSeconds, "postgresql")
def _on_postgresql(element: _InSeconds, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.seconds, **options)
    return ("(CAST(clock_timestamp() AT TIME ZONE 'UTC' AS TIMESTAMP) "
            f"+ CAST({seconds} AS BIGINT) * INTERVAL '1 second')")


@compiles(_InSeconds, "mysql")
def _on_mysql(element: _InSeconds, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.seconds, **options)
    return f"(UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND)"


@compiles(_InSeconds, "sqlite")
def _on_sqlite(element: _InSeconds, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.seconds, **options)
    return f"strftime({_SQLITE_FORMAT}, 'now', ({seconds}) || ' seconds')"


@compiles(_Second, "postgresql")
def _second_on_postgresql(element: _Second, compiler: Any, **options: Any) -> str:
    return "CAST(floor(extract(epoch FROM clock_timestamp())) AS BIGINT)"


@compiles(_Second, "mysql")
def _second_on_mysql(element: _Second, compiler: Any, **options: Any) -> str:
    return "UNIX_TIMESTAMP()"


@compiles(_Second, "sqlite")
def _second_on_sqlite(element: _Second, compiler: Any, **options: Any) -> str:
    return "CAST(strftime('%s', 'now') AS INTEGER)"


@compiles(_Microseconds, "postgresql")
def _microseconds_on_postgresql(element: _Microseconds, compiler: Any, **options: Any) -> str:
    moment = compiler.process(element.moment, **options)
    return f"CAST(round(extract(epoch FROM {moment}) * 1000000) AS BIGINT)"


@compiles(_Microseconds, "mysql")
def _microseconds_on_mysql(element: _Microseconds, compiler: Any, **options: Any) -> str:
    moment = compiler.process(element.moment, **options)
    return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {moment})"


@compiles(_Microseconds, "sqlite")
def _microseconds_on_sqlite(element: _Microseconds, compiler: Any, **options: Any) -> str:
    # Of a text, whose milliseconds strftime would round.
    moment = compiler.process(element.moment, **options)
    return (f"(CAST(strftime('%s', {moment}) AS INTEGER) * 1000000"
            f" + CAST(substr({moment}, 21, 6) AS INTEGER))")
