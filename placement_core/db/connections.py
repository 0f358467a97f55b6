"""Connections on which prepared reads are executed, one at a time on each.

A pool looks after a connection each time that it hands it out and gets it back, which
takes as long as the driver takes for such a read. Nobody looks after these: whoever reads
finds out whether the connection is alive.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
import time
from typing import Any

import sqlalchemy as sa

from placement_core.db.availability import Availability

#: How long who finds ``most`` connections in use waits for one before it connects. A read takes
#: less than a millisecond, and connecting several.
_PATIENCE_SECONDS = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class ReadConnection:
    """A connection that no transaction is begun on.

    :ivar pooled: as SQLAlchemy has it; detached from its pool.
    :ivar of_driver: as the driver has it.
    :ivar cursor: of the driver; used again for each read.
    :ivar pid: the process that connected.
    :ivar since: the monotonic time then.
    """

    pooled: sa.PoolProxiedConnection
    of_driver: Any
    cursor: Any
    pid: int
    since: float

    def close(self) -> None:
        """Close it, whatever state it is in."""
        self.pooled.close()


class ReadConnections:
    """Lends connections. Any thread may check one out, and checks it in again.

    :param engine: connects; its connections commit each statement.
    :param availability: is told which connections are in use.
    :param most: so many are kept for whoever reads next. While so many are in use, others wait
        a little before they connect, too.
    :param recycle_seconds: for how long one is used; negative: there is no bound.
    """

    def __init__(
        self, engine: sa.Engine, availability: Availability, *, most: int,
        recycle_seconds: float,
    ) -> None:
        self._engine = engine
        self._availability = availability
        self._most = most
        self._recycle_seconds = recycle_seconds
        self._idle: collections.deque[ReadConnection] = collections.deque()
        self._in_use = 0
        self._returned = threading.Condition(threading.Lock())

    @property
    def in_use(self) -> int:
        """How many are checked out."""
        return self._in_use

    @property
    def idle(self) -> int:
        """How many are there for whoever reads next."""
        return len(self._idle)

    def check_out(self) -> ReadConnection:
        """Return a connection that nobody else has."""
        with self._returned:
            if self._in_use >= self._most:
                self._returned.wait_for(
                    lambda: self._in_use < self._most, timeout=_PATIENCE_SECONDS)
            self._in_use += 1
        try:
            return self._find_or_connect()
        except BaseException:
            self._end_use()
            raise

    def _find_or_connect(self) -> ReadConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
                self._availability.begin_use(connection.of_driver)
                return connection
            if connection.pid != os.getpid():
                continue  # Not ours to close: the parent still uses its socket.
            if not self._is_old(connection):
                self._availability.begin_use(connection.of_driver)
                return connection
            connection.close()

    def _is_old(self, connection: ReadConnection) -> bool:
        # SQLAlchemy's pools take a negative number for no bound, too.
        return 0 <= self._recycle_seconds <= time.monotonic() - connection.since

    def check_in(self, connection: ReadConnection) -> None:
        """Let others have a connection that works."""
        self._availability.end_use(connection.of_driver)
        if len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()
        self._end_use()

    def discard(self, connection: ReadConnection) -> None:
        """Close a connection that does not work."""
        self._availability.end_use(connection.of_driver)
        connection.close()
        self._end_use()

    def _end_use(self) -> None:
        with self._returned:
            self._in_use -= 1
            self._returned.notify()

    def close(self) -> None:
        """Close those that nobody has."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self) -> ReadConnection:
        with self._availability.checking_out():
            pooled = self._engine.raw_connection()
        of_driver = pooled.dbapi_connection
        # The pool does not wait for it to come back.
        pooled.detach()
        return ReadConnection(pooled, of_driver, pooled.cursor(), os.getpid(), time.monotonic())
