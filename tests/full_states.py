"""A state of a shadow that takes nothing more, as on a disk that is full."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator

_FULL = "CREATE TRIGGER {name} BEFORE {action} ON {table} BEGIN SELECT RAISE(ABORT, 'full'); END"


@contextlib.contextmanager
def fill(path: pathlib.Path) -> Iterator[None]:
    """Let nothing be written into a state while this is entered."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = [row[0] for row in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'")]
        triggers = [(f"full_{table}_{action}", action, table) for table in tables
                    for action in ("INSERT", "UPDATE", "DELETE")]
        for name, action, table in triggers:
            connection.execute(_FULL.format(name=name, action=action, table=table))
        yield
        for name, _, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
