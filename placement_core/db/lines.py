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


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A connection that no transaction is begun on.

    :ivar cursor: of the driver; used again for each question.
    :ivar pid: the process that connected.
    :ivar since: the monotonic time then.
    """

    connection: sa.PoolProxiedConnection
    cursor: Any
    pid: int
    since: float

    def close(self) -> None:
        """Close it, whatever state it is in."""
        self.connection.close()


class Lines:
    """Hands out lines. Any thread may take one, and gives it back.

    :param engine: connects; its connections commit each statement.
    :param most: so many are kept for whoever asks next.
    :param recycle_seconds: for how long one is used.
    """

    def __init__(self, engine: sa.Engine, *, most: int, recycle_seconds: float) -> None:
        self._engine = engine
        self._most = most
        self._recycle_seconds = recycle_seconds
        self._idle: collections.deque[Line] = collections.deque()

    def take(self) -> Line:
        """Return a line that nobody else has."""
        while True:
            try:
                line = self._idle.pop()
            except IndexError:
                return self._connect()
            if line.pid != os.getpid():
                continue  # Not ours to close: the parent still uses its socket.
            if time.monotonic() - line.since < self._recycle_seconds:
                return line
            line.close()

    def give_back(self, line: Line) -> None:
        """Let others have a line that works."""
        if len(self._idle) < self._most:
            self._idle.append(line)
        else:
            line.close()

    def close(self) -> None:
        """Close those that nobody has."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self) -> Line:
        connection = self._engine.raw_connection()
        # The pool does not wait for it to come back.
        connection.detach()
        return Line(connection, connection.cursor(), os.getpid(), time.monotonic())
