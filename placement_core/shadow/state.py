"""What survives a restart of the proxy: the mode, what is being written, and counts.

An SQLite file. What is under way is noted before it is sent, so that a proxy that is killed knows
afterwards which objects to read again. Those notes survive the end of the process, not the end of
the machine; the mode survives both. Counts are written every second.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import pathlib
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Self

from placement_core.shadow import reports
from placement_core.shadow.errors import NoState, StateInUse
from placement_core.shadow.modes import Mode, Side
from placement_core.shadow.reports import Example, Report
from placement_core.shadow.touched import Key, Kind

_SCHEMA = """
CREATE TABLE IF NOT EXISTS mode (one INTEGER PRIMARY KEY CHECK (one = 1), mode TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS version (major INTEGER NOT NULL, minor INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS under_way (
    ticket INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    PRIMARY KEY (ticket, kind, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
    kind TEXT NOT NULL, id TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (kind, id));
CREATE TABLE IF NOT EXISTS identities (
    kind TEXT NOT NULL, upstream TEXT NOT NULL, ours TEXT NOT NULL, PRIMARY KEY (kind, upstream));
CREATE UNIQUE INDEX IF NOT EXISTS identities_ours ON identities (kind, ours);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS latencies (
    side TEXT NOT NULL, bucket INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (side, bucket));
CREATE TABLE IF NOT EXISTS examples (
    cause TEXT PRIMARY KEY, method TEXT NOT NULL, target TEXT NOT NULL,
    upstream TEXT NOT NULL, ours TEXT NOT NULL, at TEXT NOT NULL);
"""
#: How many objects are noted in one statement.
_MOST_ROWS = 8
_UNKNOWN_OUTCOME = "the proxy ended while it was written"


class State:
    """The state of a proxy that runs; nobody else writes it."""

    def __init__(self, path: pathlib.Path) -> None:
        """Open a state, or begin one.

        :raises StateInUse: another process has it open.
        :raises NoState: the file is no such state, or cannot be written.
        """
        self._lock = _lock(path)
        try:
            self._connection = _connect(path)
            self._connection.executescript(_SCHEMA)
            self._connection.execute(
                "INSERT OR IGNORE INTO mode VALUES (1, ?)", (Mode.SHADOW.value,))
            self.mode = _read_mode(self._connection)
            self.marks = _read_marks(self._connection)
            self._mark_under_way()
        except sqlite3.Error as error:
            os.close(self._lock)
            raise NoState(str(path), str(error)) from error
        self._counts: Counter[str] = Counter()
        self._latencies: Counter[tuple[Side, int]] = Counter()
        self._examples: dict[str, Example] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._connection.close()
        os.close(self._lock)

    def set_mode(self, mode: Mode) -> None:
        """Store a mode; when this returns, it survives everything."""
        self._connection.execute("PRAGMA synchronous = FULL")
        try:
            self._connection.execute("UPDATE mode SET mode = ?", (mode.value,))
        finally:
            self._connection.execute("PRAGMA synchronous = NORMAL")
        self.mode = mode

    @property
    def version(self) -> tuple[int, int] | None:
        """The newest microversion that both sides speak; None: not known yet."""
        row: tuple[int, int] | None = self._connection.execute(
            "SELECT major, minor FROM version").fetchone()
        return row

    @version.setter
    def version(self, version: tuple[int, int]) -> None:
        self._connection.execute("INSERT INTO version VALUES (?, ?)", version)

    def begin(self, ticket: int, objects: Iterable[Key]) -> None:
        """Note which objects a write is about to touch."""
        rows = [(ticket, key.kind.value, key.id) for key in objects]
        if len(rows) > _MOST_ROWS:
            with _transaction(self._connection):
                self._connection.executemany("INSERT INTO under_way VALUES (?, ?, ?)", rows)
        elif rows:
            # In one statement: the request waits for it.
            self._connection.execute(
                f"INSERT INTO under_way VALUES {', '.join(['(?, ?, ?)'] * len(rows))}",  # noqa: S608
                [value for row in rows for value in row])

    def end(self, ticket: int) -> None:
        """Note that both sides have a write, or that its objects are marked."""
        self._connection.execute("DELETE FROM under_way WHERE ticket = ?", (ticket,))

    def learn_identity(self, kind: Kind, upstream: str, ours: str) -> None:
        """Note that a record has different ids on both sides."""
        if upstream != ours:
            self._connection.execute(
                "INSERT OR REPLACE INTO identities VALUES (?, ?, ?)", (kind.value, upstream, ours))

    def translate(self, key: Key, side: Side) -> str:
        """Return the id on one side of a record that is named by its id on the other."""
        columns = ("ours", "upstream") if side is Side.OURS else ("upstream", "ours")
        row = self._connection.execute(
            "SELECT {} FROM identities WHERE kind = ? AND {} = ?".format(*columns),  # noqa: S608
            (key.kind.value, key.id)).fetchone()
        return str(row[0]) if row else key.id

    def list_under_way(self) -> Collection[Key]:
        """Return what is written at present, or is to be applied."""
        return _make_keys(self._connection.execute("SELECT DISTINCT kind, id FROM under_way"))

    def mark(self, objects: Iterable[Key], reason: str) -> None:
        """Note that objects differ until they are read again."""
        for key in objects:
            if self.marks.get(key) != reason:
                self._connection.execute(
                    "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)",
                    (key.kind.value, key.id, reason))
                self.marks[key] = reason

    def unmark(self, objects: Iterable[Key]) -> None:
        """Note that objects are the same on both sides."""
        for key in objects:
            if self.marks.pop(key, None) is not None:
                self._connection.execute(
                    "DELETE FROM marks WHERE kind = ? AND id = ?", (key.kind.value, key.id))

    def count(self, name: str, by: int = 1) -> None:
        """Count something."""
        self._counts[name] += by

    def measure(self, side: Side, seconds: float) -> None:
        """Count how long a side took."""
        self._latencies[side, reports.find_bucket(seconds)] += 1

    def differ(self, cause: str, method: str, target: str, upstream: str, ours: str) -> None:
        """Count a difference."""
        self.count(reports.CAUSE + cause)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._examples[cause] = Example(cause, method, target, upstream, ours, now)

    def flush(self) -> None:
        """Write the counts."""
        with _transaction(self._connection):
            self._connection.executemany(
                "INSERT INTO counts VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
                self._counts.items())
            self._connection.executemany(
                "INSERT INTO latencies VALUES (?, ?, ?) "
                "ON CONFLICT (side, bucket) DO UPDATE SET count = count + excluded.count",
                [(side.value, bucket, count) for (side, bucket), count in self._latencies.items()])
            self._connection.executemany(
                "INSERT OR REPLACE INTO examples VALUES (?, ?, ?, ?, ?, ?)",
                [(example.cause, example.method, example.target, example.upstream, example.ours,
                  example.at) for example in self._examples.values()])
        self._counts.clear()
        self._latencies.clear()
        self._examples.clear()

    def _mark_under_way(self) -> None:
        """Mark what an earlier process was writing when it ended."""
        keys = self.list_under_way()
        with _transaction(self._connection):
            self.mark(keys, _UNKNOWN_OUTCOME)
            self._connection.execute("DELETE FROM under_way")


def read_report(path: pathlib.Path) -> Report:
    """Return the report of a shadow, as it was written last.

    :raises NoState: there is none in this file.
    """
    with _open_existing(path) as connection:
        counts = dict(connection.execute("SELECT name, count FROM counts"))
        buckets: dict[Side, dict[int, int]] = {side: {} for side in Side}
        for side, bucket, count in connection.execute("SELECT * FROM latencies"):
            buckets[Side(side)][bucket] = count
        marks = _read_marks(connection)
        return Report(
            mode=_read_mode(connection),
            requests=counts.get(reports.REQUESTS, 0), writes=counts.get(reports.WRITES, 0),
            applied=counts.get(reports.APPLIED, 0), equal=counts.get(reports.EQUAL, 0),
            overlapped=counts.get(reports.OVERLAPPED, 0),
            different=reports.select(counts, reports.CAUSE),
            noise=reports.select(counts, reports.NOISE),
            errors={side: counts.get(reports.ERRORS + side, 0) for side in Side},
            latencies={side: reports.find_percentiles(buckets[side]) for side in Side},
            reread=counts.get(reports.REREAD, 0),
            unresolved={f"{key.kind} {key.id}": reason for key, reason in sorted(marks.items())},
            waiting=connection.execute(
                "SELECT COUNT(DISTINCT ticket) FROM under_way").fetchone()[0],
            examples=tuple(Example(*row) for row in connection.execute(
                "SELECT cause, method, target, upstream, ours, at FROM examples ORDER BY cause")))


def read_mode(path: pathlib.Path) -> Mode:
    """Return the mode of a shadow.

    :raises NoState: there is none in this file.
    """
    with _open_existing(path) as connection:
        return _read_mode(connection)


@contextlib.contextmanager
def _open_existing(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise NoState(str(path), "no such file; \"migrate shadow serve\" begins one")
    try:
        with contextlib.closing(_connect(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise NoState(str(path), str(error)) from error


def _connect(path: pathlib.Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _lock(path: pathlib.Path) -> int:
    """Take the lock of a state; return the descriptor that holds it."""
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NoState(str(path), error.strerror or str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StateInUse(str(path)) from error
    return descriptor


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _read_mode(connection: sqlite3.Connection) -> Mode:
    return Mode(connection.execute("SELECT mode FROM mode").fetchone()[0])


def _read_marks(connection: sqlite3.Connection) -> dict[Key, str]:
    return {Key(Kind(kind), id_): reason for kind, id_, reason in connection.execute(
        "SELECT kind, id, reason FROM marks")}


def _make_keys(rows: Iterable[tuple[str, str]]) -> Collection[Key]:
    return [Key(Kind(kind), id_) for kind, id_ in rows]
