"""Lines: connections on which questions are asked, one at a time on each.

A pool looks after a connection each time that it hands it out and gets it back, which
takes as long as the driver takes for a question. Nobody looks after a line: whoever asks
finds out whether it is alive.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import time
from typing import Any

import sqlalchemy as sa

from placement_core.db.availability import Availability


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A connection that no transaction is begun on.

    :ivar driver_connection: the same as the driver has it.
    :ivar cursor: of the driver; used again for each question.
    :ivar pid: the process that connected.
    :ivar since: the monotonic time then.
    """

    connection: sa.PoolProxiedConnection
    driver_connection: Any
    cursor: Any
    pid: int
    since: float

    def close(self) -> None:
        """Close it, whatever state it is in."""
        self.connection.close()


class Lines:
    """Hands out lines. Any thread may take one, and gives it back.

    :param engine: connects; its connections commit each statement.
    :param availability: is told which lines are in use.
    :param most: so many are kept for whoever asks next.
    :param recycle_seconds: for how long one is used.
    """

    def __init__(
        self, engine: sa.Engine, availability: Availability, *, most: int,
        recycle_seconds: float,
    ) -> None:
        self._engine = engine
        self._availability = availability
        self._most = most
        self._recycle_seconds = recycle_seconds
        self._idle: collections.deque[Line] = collections.deque()

    def take(self) -> Line:
        """Return a line that nobody else has."""
        while True:
            try:
                line = self._idle.pop()
            except IndexError:
                line = self._connect()
                self._availability.begin_use(line.driver_connection)
                return line
            if line.pid != os.getpid():
                continue  # Not ours to close: the parent still uses its socket.
            if time.monotonic() - line.since < self._recycle_seconds:
                self._availability.begin_use(line.driver_connection)
                return line
            line.close()

    def give_back(self, line: Line) -> None:
        """Let others have a line that works."""
        self._availability.end_use(line.driver_connection)
        if len(self._idle) < self._most:
            self._idle.append(line)
        else:
            line.close()

    def discard(self, line: Line) -> None:
        """Close a line that does not work."""
        self._availability.end_use(line.driver_connection)
        line.close()

    def close(self) -> None:
        """Close those that nobody has."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self) -> Line:
        connection = self._engine.raw_connection()
        driver_connection = connection.dbapi_connection
        # The pool does not wait for it to come back.
        connection.detach()
        return Line(connection, driver_connection, connection.cursor(), os.getpid(),
                    time.monotonic())
