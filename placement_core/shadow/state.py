"""What survives a restart of the proxy: the mode, what is being written, and counts.

An SQLite file. What is under way is noted before it is sent, so that a proxy that is killed knows
afterwards which objects to read again. Those notes survive the end of the process, not the end of
the machine; the mode survives both. Counts are written every second.

No request fails because the file cannot be written, on a full disk for one. All of it but the
mode is in memory, too: what the file lacks then, ``flush`` writes once that is possible.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import logging
import os
import pathlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Self

from placement_core.shadow import reports
from placement_core.shadow.errors import NoState, NotSwitched, StateInUse
from placement_core.shadow.modes import Mode, Side
from placement_core.shadow.reports import Example, Report
from placement_core.shadow.touched import Key, Kind

LOG = logging.getLogger(__name__)

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
_INSERT_MARK = "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)"
_INSERT_IDENTITY = "INSERT OR REPLACE INTO identities VALUES (?, ?, ?)"
_INSERT_UNDER_WAY = "INSERT INTO under_way VALUES (?, ?, ?)"
_UNKNOWN_OUTCOME = "the proxy ended while it was written"


class _Identities:
    """Which ids belong together.

    :ivar on_side: {side: {the record, by its id on the other side: its id there}}.
    """

    def __init__(self) -> None:
        self.on_side: dict[Side, dict[Key, str]] = {side: {} for side in Side}

    def learn(self, kind: Kind, upstream: str, ours: str) -> None:
        """Let two ids belong together, and neither to what it belonged to before."""
        to_ours, to_upstream = self.on_side[Side.OURS], self.on_side[Side.UPSTREAM]
        earlier_ours = to_ours.pop(Key(kind, upstream), None)
        earlier_upstream = to_upstream.pop(Key(kind, ours), None)
        if earlier_ours is not None:
            to_upstream.pop(Key(kind, earlier_ours), None)
        if earlier_upstream is not None:
            to_ours.pop(Key(kind, earlier_upstream), None)
        to_ours[Key(kind, upstream)], to_upstream[Key(kind, ours)] = ours, upstream


class State:
    """The state of a proxy that runs; nobody else writes it."""

    def __init__(self, path: pathlib.Path) -> None:
        """Open a state, or begin one.

        :raises StateInUse: another process has it open.
        :raises NoState: the file is no such state, or cannot be written.
        """
        self._lock = _lock(path)
        self._under_way: dict[int, set[Key]] = {}
        #: Whether the file lacks something that is here.
        self._is_behind = False
        self._counts: Counter[str] = Counter()
        self._latencies: Counter[tuple[Side, int]] = Counter()
        self._examples: dict[str, Example] = {}
        try:
            self._connection = _connect(path)
            self._connection.executescript(_SCHEMA)
            self._connection.execute(
                "INSERT OR IGNORE INTO mode VALUES (1, ?)", (Mode.SHADOW.value,))
            self.mode = _read_mode(self._connection)
            self.marks = _read_marks(self._connection)
            self._identities = _read_identities(self._connection)
            self._mark_under_way()
        except sqlite3.Error as error:
            os.close(self._lock)
            raise NoState(str(path), str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._connection.close()
        os.close(self._lock)

    def set_mode(self, mode: Mode) -> None:
        """Store a mode; when this returns, it survives everything.

        :raises NotSwitched: it cannot be stored, or the file lacks something still: who comes
            back after a kill would not know what differs.
        """
        if self._is_behind:
            self.flush()
        if self._is_behind:
            raise NotSwitched("the state cannot be written, and lacks what differs")
        self._connection.execute("PRAGMA synchronous = FULL")
        try:
            self._connection.execute("UPDATE mode SET mode = ?", (mode.value,))
        except sqlite3.Error as error:
            raise NotSwitched(f"the state cannot be written: {error}") from error
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
        keys = list(objects)
        if keys:
            self._under_way.setdefault(ticket, set()).update(keys)
            self._try(self._insert_under_way, ticket, keys)

    def end(self, ticket: int) -> None:
        """Note that both sides have a write, or that its objects are marked."""
        if self._under_way.pop(ticket, None) is not None:
            self._try(self._connection.execute, "DELETE FROM under_way WHERE ticket = ?",
                      (ticket,))

    def learn_identity(self, kind: Kind, upstream: str, ours: str) -> None:
        """Note that a record has different ids on both sides."""
        if upstream != ours:
            self._identities.learn(kind, upstream, ours)
            self._try(self._connection.execute, _INSERT_IDENTITY, (kind.value, upstream, ours))

    def translate(self, key: Key, side: Side) -> str:
        """Return the id on one side of a record that is named by its id on the other."""
        return self._identities.on_side[side].get(key, key.id)

    def list_under_way(self) -> Collection[Key]:
        """Return what is written at present, or is to be applied."""
        return {key for keys in self._under_way.values() for key in keys}

    def mark(self, objects: Iterable[Key], reason: str) -> None:
        """Note that objects differ until they are read again."""
        for key in objects:
            if self.marks.get(key) != reason:
                self.marks[key] = reason
                self._try(self._connection.execute, _INSERT_MARK, (key.kind.value, key.id, reason))

    def unmark(self, objects: Iterable[Key]) -> None:
        """Note that objects are the same on both sides."""
        for key in objects:
            if self.marks.pop(key, None) is not None:
                self._try(
                    self._connection.execute, "DELETE FROM marks WHERE kind = ? AND id = ?",
                    (key.kind.value, key.id))

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
        """Write the counts, and what could not be written before; or do it the next time."""
        try:
            with _transaction(self._connection):
                self._write_counts()
                if self._is_behind:
                    self._write_anew()
        except sqlite3.Error as error:
            self._fall_behind(error)
            return
        if self._is_behind:
            LOG.warning("The state is written again, and lacks nothing")
            self._is_behind = False
        self._counts.clear()
        self._latencies.clear()
        self._examples.clear()

    def _write_counts(self) -> None:
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

    def _write_anew(self) -> None:
        """Write all that the file may lack, whichever part of it was written."""
        for table in ("under_way", "marks", "identities"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
        self._connection.executemany(_INSERT_UNDER_WAY, [
            (ticket, key.kind.value, key.id)
            for ticket, keys in self._under_way.items() for key in keys])
        self._connection.executemany(_INSERT_MARK, [
            (key.kind.value, key.id, reason) for key, reason in self.marks.items()])
        self._connection.executemany(_INSERT_IDENTITY, [
            (key.kind.value, key.id, ours)
            for key, ours in self._identities.on_side[Side.OURS].items()])

    def _insert_under_way(self, ticket: int, keys: Collection[Key]) -> None:
        rows = [(ticket, key.kind.value, key.id) for key in keys]
        if len(rows) > _MOST_ROWS:
            with _transaction(self._connection):
                self._connection.executemany(_INSERT_UNDER_WAY, rows)
        else:
            # In one statement: the request waits for it.
            self._connection.execute(
                f"INSERT INTO under_way VALUES {', '.join(['(?, ?, ?)'] * len(rows))}",  # noqa: S608
                [value for row in rows for value in row])

    def _try(self, write: Callable[..., object], *arguments: object) -> None:
        """Write something, unless the file is behind: then ``flush`` writes everything."""
        if self._is_behind:
            return
        try:
            write(*arguments)
        except sqlite3.Error as error:
            self._fall_behind(error)

    def _fall_behind(self, error: sqlite3.Error) -> None:
        if not self._is_behind:
            LOG.error("The state cannot be written; what it lacks waits in memory: %s", error)
        self._is_behind = True

    def _mark_under_way(self) -> None:
        """Mark what an earlier process was writing when it ended."""
        keys = [Key(Kind(kind), id_) for kind, id_ in self._connection.execute(
            "SELECT DISTINCT kind, id FROM under_way")]
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
        connection.execute("COMMIT")
    except BaseException:
        # A full disk ends some transactions by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _read_mode(connection: sqlite3.Connection) -> Mode:
    return Mode(connection.execute("SELECT mode FROM mode").fetchone()[0])


def _read_marks(connection: sqlite3.Connection) -> dict[Key, str]:
    return {Key(Kind(kind), id_): reason for kind, id_, reason in connection.execute(
        "SELECT kind, id, reason FROM marks")}


def _read_identities(connection: sqlite3.Connection) -> _Identities:
    identities = _Identities()
    for kind, upstream, ours in connection.execute("SELECT kind, upstream, ours FROM identities"):
        identities.learn(Kind(kind), upstream, ours)
    return identities
