"""PyMySQL's connections, as we make them. Imported where they are used: PyMySQL is optional."""

from __future__ import annotations

import datetime
import functools
import os
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pymysql.connections
from pymysql import converters, cursors
from pymysql.constants import CLIENT, FIELD_TYPE

#: Texts that are sent together are at most so many characters; a server refuses what is too long.
_LONGEST_TEXT = 1_000_000
#: How many texts of INSERTs are kept in parts.
_MOST_INSERTS = 256

#: {type: what writes a value of it as a literal}
_WRITERS: Mapping[type, Callable[[Any], str]] = {
    int: str,
    type(None): lambda _: "NULL",
    datetime.datetime: lambda moment: f"'{moment.replace(tzinfo=None).isoformat(' ')}'"}


def _read_moment(text: str) -> Any:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return converters.convert_datetime(text)  # It is no moment: 0000-00-00 00:00:00


#: PyMySQL's own, for literals of values and for values that a server sends. Its reader of moments
#: takes twenty times as long: a tenth of what a worker with 100,000 hosts needs to start.
_CONVERTERS = {**converters.conversions,
               FIELD_TYPE.DATETIME: _read_moment, FIELD_TYPE.TIMESTAMP: _read_moment}

_contexts: dict[tuple[tuple[str, str], ...], ssl.SSLContext] = {}
_contexts_lock = threading.Lock()


def _renew_lock() -> None:
    global _contexts_lock
    _contexts_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class SharedContextConnection(pymysql.connections.Connection):  # type: ignore[misc]  # it has no types
    """PyMySQL's connection, with one TLS context for all that want the same.

    PyMySQL makes one for each connection, and reads the system's certificates for it,
    which takes more processor time than all the rest of connecting.
    """

    def __init__(self, *args: Any, client_flag: int = 0, **options: Any) -> None:
        """Connect, so that one message may have several statements."""
        super().__init__(
            *args, client_flag=client_flag | CLIENT.MULTI_STATEMENTS,
            **{"conv": _CONVERTERS, **options})

    def send_together(
        self, statements: Sequence[tuple[str, Any]], results: list[Any]
    ) -> None:
        """Execute statements one after the other in one round trip.

        :param statements: the text of each and the parameters of one execution or, in a list, of
            several.
        :param results: receives that of each statement that was executed: its ``rowcount`` and
            ``fetchall()``. If one fails, which raises its error, those behind it are not executed.
        """
        texts: list[str] = []
        with self.cursor() as cursor:
            for text, parameters in statements:
                rendered = _render(self, text, parameters)
                if texts and sum(map(len, texts)) + len(rendered) > _LONGEST_TEXT:
                    _execute(cursor, texts, results)
                    texts = []
                texts.append(rendered)
            _execute(cursor, texts, results)

    def escape(self, obj: Any, mapping: Any = None) -> str:
        """Write a value as a literal; the most frequent types in the shortest way."""
        write = _WRITERS.get(type(obj)) if mapping is None else None
        literal: str = super().escape(obj, mapping) if write is None else write(obj)
        return literal

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        if not isinstance(sslp, dict):
            context: ssl.SSLContext = super()._create_ssl_ctx(sslp)
            return context
        options = tuple(sorted((name, str(value)) for name, value in sslp.items()))
        with _contexts_lock:
            if options not in _contexts:
                _contexts[options] = super()._create_ssl_ctx(sslp)
            return _contexts[options]

    def wait_for_answers(self, seconds: float) -> None:
        """Bound the wait for an answer; 0 is no bound."""
        # It reads the attribute each time; there is no other way to change it.
        self._read_timeout = seconds or None


class _Result(NamedTuple):
    rowcount: int
    rows: Sequence[Any]

    def fetchall(self) -> Sequence[Any]:
        return self.rows

    def close(self) -> None:
        """Do nothing: it was read whole."""


def _execute(cursor: Any, texts: Sequence[str], results: list[Any]) -> None:
    cursor.execute(";".join(texts))
    results.append(_Result(cursor.rowcount, cursor.fetchall()))
    while cursor.nextset():
        results.append(_Result(cursor.rowcount, cursor.fetchall()))


def _render(connection: SharedContextConnection, text: str, parameters: Any) -> str:
    """Write a statement as the driver does; an INSERT of several rows as one."""
    if parameters is None:
        return text
    if not isinstance(parameters, list):
        return text % _write_literals(connection, parameters)
    parts = _split_insert(text)
    assert parts is not None  # nothing else is executed for several rows at once
    before, values, behind = parts
    return before + ",".join(
        [values % _write_literals(connection, row) for row in parameters]) + behind


def _write_literals(
    connection: SharedContextConnection, values: Mapping[str, Any]
) -> dict[str, str]:
    # A claim has some 150 values; without the calls between the driver's cursor and the writer of
    # a value, its statements are written in four fifths of the time.
    find_writer, escape = _WRITERS.get, connection.escape
    return {name: escape(value) if (write := find_writer(type(value))) is None else write(value)
            for name, value in values.items()}


@functools.lru_cache(_MOST_INSERTS)
def _split_insert(text: str) -> tuple[str, str, str] | None:
    """Return what is before the values of an INSERT, the values, and what is behind them."""
    parts = cursors.RE_INSERT_VALUES.match(text)
    if parts is None:
        return None
    before, values, behind = parts.groups()
    return before % (), values.rstrip(), (behind or "") % ()
