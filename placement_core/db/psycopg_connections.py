"""psycopg's connections, as we make them. Imported where they are used: psycopg is optional."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.abc import PQGen

#: What is sent together is at most so many bytes. libpq sends what it has collected once it has
#: 8 KiB, without waiting for more.
_LONGEST_MESSAGE = 8000
#: More than a statement's messages have around its text, its values, and each of these.
_FRAME = 120
_VALUE_FRAME = 8


class PipeliningConnection(psycopg.Connection[Any]):
    """psycopg's connection, which can send several statements in one piece."""

    def send_together(self, statements: Sequence[tuple[str, Any]], results: list[Any]) -> None:
        """Execute statements one after the other in one round trip.

        :param statements: the text of each and the parameters of its one execution,
            which may be in a list.
        :param results: receives that of each statement that was executed: its ``rowcount`` and
            ``fetchall()``. If one fails, which raises its error, those behind it are not executed.
        """
        cursors = [self.cursor() for _ in statements]
        self._pipeline = _WholePipeline(self)
        try:
            with self._pipeline:
                for cursor, (text, parameters) in zip(cursors, statements, strict=True):
                    if isinstance(parameters, list):
                        [parameters] = parameters
                    cursor.execute(text, parameters)
        finally:
            self._pipeline = None
            results += itertools.takewhile(lambda each: each.pgresult is not None, cursors)


class _WholePipeline(psycopg.Pipeline):
    """psycopg's pipeline, for a process that may be stopped at any time.

    psycopg sends each statement by itself, at the end the message that ends the turn (Sync), and
    in the end a request to flush. PostgreSQL takes a session for idle, which is bounded
    (``idle_in_transaction_session_timeout``), only if that message was the last one. A process
    that is stopped before it, or after the request, would hold its locks for as long as it is.
    Here all statements and the end of the turn leave in one write; what is too long for one
    leaves in several, each of which ends a turn.
    """

    #: Whether the queued commands are whole turns.
    _ended = False

    def _communicate_gen(self) -> PQGen[None]:
        """Send nothing before the end: cursors ask for it after each statement."""
        if self._ended:
            self._ended = False
            yield from super()._communicate_gen()

    def _enqueue_sync(self) -> None:
        queued = list(zip(self.command_queue, self.result_queue, strict=True))
        self.command_queue.clear()
        self.result_queue.clear()
        message: list[Callable[[], None]] = []
        length = 0
        for command, result in queued:
            more = _measure(command)
            if message and length + more > _LONGEST_MESSAGE:
                self._end_turn(message)
                message, length = [], 0
            message.append(command)
            self.result_queue.append(result)
            length += more
        self._end_turn(message)
        self._ended = True

    def _end_turn(self, message: Sequence[Callable[[], None]]) -> None:
        def send_all() -> None:
            for send in message:
                send()
            self.pgconn.pipeline_sync()

        self.command_queue.append(send_all)
        self.result_queue.append(None)

    def _exit_gen(self) -> PQGen[None]:
        """Send all, and read the results without the request to flush."""
        self._enqueue_sync()
        first: psycopg.Error | None = None
        for step in (self._communicate_gen(), self._fetch_gen(flush=False)):
            try:
                yield from step
            except psycopg.Error as error:
                # Errors of what is behind the first are its consequences.
                first = first or error
        if first is not None:
            raise first


def _measure(command: Callable[[], None]) -> int:
    """Return at most how many bytes a statement has, from what psycopg calls libpq with."""
    length = _FRAME
    assert isinstance(command, partial)
    for argument in command.args:
        if isinstance(argument, bytes):
            length += len(argument)
        elif argument is not None:
            length += sum(_VALUE_FRAME + len(value or b"") for value in argument)
    return length
