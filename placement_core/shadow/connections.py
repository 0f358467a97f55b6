"""Connections for one request each: a request is sent once, or not at all.

Clients with kept connections send a request again if the server has closed the connection in
between, since nobody can tell whether it was carried out. A write that was carried out would be
refused the second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import aiohappyeyeballs
import h11
from aiohappyeyeballs import AddrInfoType

from placement_core.shadow.messages import (
    Answer,
    NoAnswer,
    Request,
    find_header,
    omit_hop_by_hop,
)

_CONNECT_SECONDS = 5.0
#: For how long the addresses of a name are remembered.
_ADDRESS_SECONDS = 10.0
#: The longest head of an answer.
_HEAD_BYTES = 128 * 1024
#: How much is read at a time, and what every server takes before it answers.
_PART_BYTES = 64 * 1024
_PORTS = {"http": 80, "https": 443}
_CUT_OFF = "the connection was closed before the answer was complete"

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


class Connection:
    """A connection for one request.

    If the address is known, connecting begins at once, without waiting for it: so the server
    accepts the connection while the caller prepares the request.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._socket: socket.socket | None = None
        self._error = 0
        self._address = origin.find_only_address()
        if self._address is not None:
            self._socket = socket.socket(self._address[0], socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._error = self._socket.connect_ex(self._address[4])

    def close(self) -> None:
        """Close it, if nobody has asked anything."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def ask(self, request: Request) -> Answer:
        """Send a request, and return its answer. Nothing else can be sent afterwards.

        :raises NoAnswer: there is none; whether it was carried out is not known.
        """
        started = time.perf_counter()
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        try:
            data = _spell(http, request, self._origin)
            async with asyncio.timeout(_CONNECT_SECONDS):
                connected = await self._connect()
            if self._origin.tls is None:
                response, body = await _exchange_plainly(http, connected, data)
            else:
                self._socket = None
                response, body = await _exchange_by_tls(http, connected, data, self._origin)
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            raise NoAnswer(f"{self._origin.url}: {error or type(error).__name__}") from error
        finally:
            self.close()
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in response.headers.raw_items())
        return Answer(
            response.status_code, bytes(response.reason).decode("latin-1"), headers, body,
            time.perf_counter() - started)

    async def _connect(self) -> socket.socket:
        """Return a connected socket.

        :raises OSError: no address can be reached.
        """
        if self._socket is None or self._address is None:
            self._socket = await aiohappyeyeballs.start_connection(
                await self._origin.find_addresses(),
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS)
        elif self._error == errno.EINPROGRESS:
            # Connecting a second time waits for the first.
            await asyncio.get_running_loop().sock_connect(self._socket, self._address[4])
        elif self._error:
            raise OSError(self._error, os.strerror(self._error))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


async def _exchange_plainly(
    http: h11.Connection, connected: socket.socket, data: bytes
) -> tuple[h11.Response, bytes]:
    """Send a request, and return the answer, without the turns that transports take."""
    loop = asyncio.get_running_loop()
    sending = loop.sock_sendall(connected, data)
    return await _exchange(
        http, sending, lambda: loop.sock_recv(connected, _PART_BYTES),
        is_small=len(data) <= _PART_BYTES)


async def _exchange_by_tls(
    http: h11.Connection, connected: socket.socket, data: bytes, origin: Origin
) -> tuple[h11.Response, bytes]:
    """Send a request, and return the answer."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(
            sock=connected, ssl=origin.tls, server_hostname=origin.host)
    try:
        writer.write(data)
        return await _exchange(
            http, writer.drain(), lambda: reader.read(_PART_BYTES),
            is_small=len(data) <= _PART_BYTES)
    finally:
        writer.close()


async def _exchange(
    http: h11.Connection, sending: Coroutine[Any, Any, None],
    receive: Callable[[], Awaitable[bytes]], *, is_small: bool,
) -> tuple[h11.Response, bytes]:
    """Wait until a request is sent; return the answer.

    :param is_small: whether the server takes it at once, also if it refuses it.
    """
    task: asyncio.Task[None] | None = None
    if is_small:
        # Who refuses it may have answered, too.
        with contextlib.suppress(ConnectionError):
            await sending
    else:
        # The answer may come before the end of the request.
        task = asyncio.create_task(sending)
    try:
        return await _receive(http, receive)
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _receive(
    http: h11.Connection, receive: Callable[[], Awaitable[bytes]]
) -> tuple[h11.Response, bytes]:
    """Return the answer.

    :raises ConnectionError: there is none.
    """
    response: h11.Response | None = None
    body = bytearray()
    data = b""
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            if data:
                raise
            raise ConnectionError(_CUT_OFF) from error
        if event is h11.NEED_DATA:
            data = await receive()
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert response is not None
            return response, bytes(body)


def _spell(http: h11.Connection, request: Request, origin: Origin) -> bytes:
    """Return the bytes of a request.

    :raises h11.LocalProtocolError: HTTP has no such request.
    """
    headers = omit_hop_by_hop(request.headers, "content-length")
    if find_header(headers, "host") is None:
        headers = (("Host", origin.netloc), *headers)
    parts = [
        http.send(h11.Request(
            method=request.method, target=(origin.prefix + request.target).encode(), headers=[
                *((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers),
                (b"Content-Length", b"%d" % len(request.body)), (b"Connection", b"close")])),
        http.send(h11.Data(request.body)), http.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)
