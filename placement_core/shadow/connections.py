"""Connections to the two sides: a write has one of its own, reads share those that are kept.

A server may close a connection that it was to keep at the moment at which a request is sent, and
nobody can tell then whether that was carried out. A write that was carried out would be refused
the second time, so a write is sent over a connection that nothing was sent over before, and is
sent once, or not at all. A read changes nothing: if a kept connection turns out to be closed
before any byte of an answer came, it is sent a second time, over a new connection. So it is if
the server says 408, as some do before they close a connection that was idle (RFC 9110 section
15.5.9): that was said before the read arrived, and is no answer to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol
from urllib.parse import urlsplit

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from placement_core.shadow import wire
from placement_core.shadow.messages import Answer, NoAnswer, Request

_CONNECT_SECONDS = 5.0
#: For how long the addresses of a name are remembered.
_ADDRESS_SECONDS = 10.0
#: A connection that is idle for longer is closed here, before a server closes it: Apache's and
#: Gunicorn's do so after some seconds.
_IDLE_SECONDS = 1.0
#: How much is read at a time, and what every server takes before it answers.
_PART_BYTES = 64 * 1024
_PORTS = {"http": 80, "https": 443}
#: A host that is no more says nothing, and a request may take as long as its client waits. So a
#: host that has been silent for half a minute is asked every ten seconds whether it is there; a
#: minute without a sign of it ends the connection, whether it has taken the request or not.
_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)

#: After how long the next address of a name is tried, beside the first.
_NEXT_ADDRESS_SECONDS = 0.25


class Origin:
    """A server, and where it is.

    :param url: without a query; a path comes before that of each request.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self.prefix = parts.path.rstrip("/")
        self.host = parts.hostname or ""
        self.port = parts.port or _PORTS[parts.scheme]
        self.netloc = parts.netloc.rpartition("@")[2]
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._addresses: list[AddrInfoType] = []
        self._expire_at = 0.0

    def find_only_address(self) -> AddrInfoType | None:
        """Return its address, if it was found some seconds ago and there is no other."""
        if len(self._addresses) == 1 and time.monotonic() < self._expire_at:
            return self._addresses[0]
        return None

    async def find_addresses(self) -> list[AddrInfoType]:
        """Return its addresses.

        :raises OSError: there are none.
        """
        if time.monotonic() >= self._expire_at:
            self._addresses = [*await asyncio.get_running_loop().getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM)]
            self._expire_at = time.monotonic() + _ADDRESS_SECONDS
        return self._addresses


class _Stream(Protocol):
    """What goes over a connection."""

    async def send(self, data: bytes) -> None:
        """Send something."""

    async def receive(self) -> bytes:
        """Wait for bytes; none: it was closed."""

    def close(self) -> None:
        """Close it."""


class _PlainStream:
    """A socket, without the turns that transports take."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        return await self._loop.sock_recv(self._socket, _PART_BYTES)

    def close(self) -> None:
        self._socket.close()


class _TLSStream:
    """A socket with TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        return await self._reader.read(_PART_BYTES)

    def close(self) -> None:
        self._writer.close()


class Connection:
    """A connection for one request at a time.

    If the address is known, connecting begins at once, without waiting for it: so the server
    accepts the connection while the caller prepares the request.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._stream: _Stream | None = None
        self._idle_read: asyncio.Task[bytes] | None = None
        self._socket: socket.socket | None = None
        self._error = 0
        self._address = origin.find_only_address()
        if self._address is not None:
            self._socket = socket.socket(self._address[0], socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._error = self._socket.connect_ex(self._address[4])

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._stream is not None and (self._idle_read is None or not self._idle_read.done())

    def close(self) -> None:
        """Close it."""
        if self._idle_read is not None:
            self._idle_read.cancel()
        for closable in (self._stream, self._socket):
            if closable is not None:
                closable.close()
        self._stream = self._socket = self._idle_read = None

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call ``on_end`` once nothing should be sent any more: it is closed, or something came.

        That something is the answer, if a request was sent before.
        """
        assert self._stream is not None
        self._idle_read = asyncio.ensure_future(_read_idle(self._stream))
        self._idle_read.add_done_callback(lambda _: on_end())

    async def ask(self, request: Request, *, keep_alive: bool = False) -> Answer:
        """Send a request, and return its answer.

        :param keep_alive: whether the connection stays open, if the server agrees.
        :raises StaleConnection: it was used before, and the server gave it up before it answered.
        :raises NoAnswer: there is none; whether it was carried out is not known.
        """
        started = time.perf_counter()
        was_used, is_kept = self._stream is not None, False
        try:
            data = wire.render_request(
                request, prefix=self._origin.prefix, host=self._origin.netloc,
                keep_alive=keep_alive)
            stream = self._stream = self._stream or await self._open()
            answer, is_reusable = await self._exchange(stream, request.method, data, started)
            if was_used and answer.status == http.HTTPStatus.REQUEST_TIMEOUT:
                raise StaleConnection(f"{self._origin.url}: it waited too long for a request")
            is_kept = keep_alive and is_reusable
        except wire.Unanswered as error:
            kind = StaleConnection if was_used else NoAnswer
            raise kind(f"{self._origin.url}: {error}") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(f"{self._origin.url}: {_describe(error)}") from error
        finally:
            if not is_kept:
                self.close()
        return answer

    async def _exchange(
        self, stream: _Stream, method: str, data: bytes, started: float
    ) -> tuple[Answer, bool]:
        """Send a request; return its answer, and whether another one can be sent."""
        task: asyncio.Task[None] | None = None
        if len(data) <= _PART_BYTES:
            # A server takes so much at once. Who refuses it may have answered, too.
            with contextlib.suppress(ConnectionError):
                await stream.send(data)
        else:
            # The answer may come before the end of the request.
            task = asyncio.create_task(stream.send(data))
        try:
            answer, is_reusable = await wire.read_answer(
                method, started, lambda: self._receive(stream))
            return answer, is_reusable and (task is None or task.done())
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _receive(self, stream: _Stream) -> Awaitable[bytes]:
        """Wait for bytes, first by the read that began while the connection was idle."""
        idle_read, self._idle_read = self._idle_read, None
        return stream.receive() if idle_read is None else idle_read

    async def _open(self) -> _Stream:
        """Return the stream, once it is connected.

        :raises ConnectionError: no address can be reached.
        """
        try:
            connected = await self._connect()
            for option in _SOCKET_OPTIONS:
                connected.setsockopt(*option)
            stream: _Stream = (
                await self._encrypt(connected) if self._origin.tls else _PlainStream(connected))
        except OSError as error:
            raise ConnectionError(f"cannot connect: {_describe(error)}") from error
        self._socket = None
        return stream

    async def _encrypt(self, connected: socket.socket) -> _Stream:
        """Return the stream over a socket, once both sides agree on how to encrypt it."""
        async with asyncio.timeout(_CONNECT_SECONDS):
            return _TLSStream(*await asyncio.open_connection(
                sock=connected, ssl=self._origin.tls, server_hostname=self._origin.host))

    async def _connect(self) -> socket.socket:
        """Return a connected socket.

        :raises OSError: no address can be reached.
        """
        if self._socket is None or self._address is None:
            async with asyncio.timeout(_CONNECT_SECONDS):
                self._socket = await aiohappyeyeballs.start_connection(
                    await self._origin.find_addresses(),
                    happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS)
            return self._socket
        if self._error == errno.EINPROGRESS:
            # Connecting a second time tells how far the first one is.
            self._error = self._socket.connect_ex(self._address[4])
        if self._error == errno.EALREADY:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(self._socket, self._address[4])
        elif self._error:
            raise OSError(self._error, os.strerror(self._error))
        return self._socket


class StaleConnection(NoAnswer):
    """The server gave up a connection that was used before, and did not answer."""


class Connections:
    """The connections to one server."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._idle: dict[Connection, asyncio.TimerHandle] = {}

    def close(self) -> None:
        """Close those that nobody uses."""
        for connection in list(self._idle):
            self._drop(connection)

    @contextlib.contextmanager
    def connecting(self, request: Request) -> Iterator[Connection]:
        """Begin to connect for a request that ``ask`` gets next; yield what it needs for that."""
        connection = self._take(request)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise

    async def ask(self, request: Request, connection: Connection | None = None) -> Answer:
        """Send a request, and return its answer: a write once, a read twice if it has to be.

        :param connection: the one that ``connecting`` yields for it.
        :raises NoAnswer: there is none.
        """
        connection = connection or self._take(request)
        if not request.is_read:
            return await connection.ask(request)
        try:
            answer = await connection.ask(request, keep_alive=True)
        except StaleConnection:
            connection = Connection(self._origin)
            answer = await connection.ask(request, keep_alive=True)
        if connection.is_open:
            self._keep(connection)
        return answer

    def _take(self, request: Request) -> Connection:
        """Return an idle connection for a read, if there is one, or a new one."""
        while request.is_read and self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.is_open:
                return connection
            connection.close()
        return Connection(self._origin)

    def _keep(self, connection: Connection) -> None:
        """Keep a connection for the next read that comes soon."""
        self._idle[connection] = asyncio.get_running_loop().call_later(
            _IDLE_SECONDS, self._drop, connection)
        connection.watch(lambda: self._drop(connection))

    def _drop(self, connection: Connection) -> None:
        """Close a connection, if nobody has taken it."""
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()
            connection.close()


async def _read_idle(stream: _Stream) -> bytes:
    """Wait for bytes; none: it was closed, or reset."""
    try:
        return await stream.receive()
    except OSError:
        return b""


def _describe(error: Exception) -> str:
    """Return what happened; not every error has a text."""
    return str(error) or type(error).__name__
