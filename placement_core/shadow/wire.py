"""Messages as bytes: httptools reads those of servers, and this writes those that pass."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

import httptools
from aiohttp import HttpVersion11

from placement_core.shadow.messages import (
    READS,
    Answer,
    Headers,
    Request,
    find_header,
    omit_hop_by_hop,
)

_CUT_OFF = "the connection was closed before the answer was complete"
#: What would end a line of a head, and what would end a target.
_LINE_END = re.compile(r"[\0\r\n]")
_TARGET_END = re.compile(r"[\0-\x20\x7f]")
#: Statuses of answers that never have a body.
_WITHOUT_BODY = frozenset({204, 304})


class Unanswered(ConnectionError):
    """The connection was closed before a byte of an answer came."""


class _AnswerParser:
    """Makes an answer of the bytes that come.

    :param started: when its request was sent (``time.perf_counter``).
    :ivar answer: None until it is complete.
    :ivar is_reusable: whether the server takes another request on the same connection.
    """

    def __init__(self, method: str, started: float) -> None:
        self.answer: Answer | None = None
        self.is_reusable = False
        self._method = method
        self._started = started
        self._reason = b""
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()
        self._has_head = False
        self._parser = httptools.HttpResponseParser(self)
        # A line may end without a carriage return (RFC 9112, 2.2).
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    def feed(self, data: bytes) -> None:
        """Take what came.

        :raises ValueError: it is no answer.
        """
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # What comes after an answer does not belong to it.
            self.is_reusable = False
            if self.answer is None:
                raise ValueError(f"this is no answer of HTTP: {error}") from error

    def end(self) -> None:
        """Take note that the server closed the connection: that ends a body of no said length.

        :raises ConnectionError: it was to be longer.
        """
        framed = [find_header(tuple(self._headers), name) for name in (
            "content-length", "transfer-encoding")]
        if not self._has_head or framed != [None, None]:
            raise ConnectionError(_CUT_OFF)
        self._complete()

    def on_message_begin(self) -> None:
        """Take note that something comes; after an answer nobody asked for it."""
        if self.answer is not None:
            self.is_reusable = False

    def on_status(self, part: bytes) -> None:
        """Take a part of the reason."""
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after the body belong to the connection."""
        if not self._has_head:
            self._headers.append((name.decode("latin-1"), value.rstrip(b" \t").decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Take note of the end of a head; after that of 1xx another one follows."""
        self._has_head = self._parser.get_status_code() >= 200
        if self._has_head and self._method == "HEAD":
            self._complete()

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        self._body += part

    def on_message_complete(self) -> None:
        """Take note of the end of a message."""
        if not self._has_head:
            self._reason, self._headers = b"", []
        elif self.answer is None:
            self.is_reusable = self._parser.should_keep_alive()
            self._complete()

    def release(self) -> None:
        """Give up the parser, which refers to this one."""
        del self._parser

    def _complete(self) -> None:
        self.answer = Answer(
            self._parser.get_status_code(), self._reason.decode("latin-1"), tuple(self._headers),
            bytes(self._body), time.perf_counter() - self._started)


async def read_answer(
    method: str, started: float, receive: Callable[[], Awaitable[bytes]]
) -> tuple[Answer, bool]:
    """Return an answer, and whether its connection can be used again.

    :param receive: waits for bytes; none: the connection was closed.
    :raises Unanswered: nothing came.
    :raises ConnectionError: the answer is not complete.
    :raises ValueError: it is no answer.
    """
    parser = _AnswerParser(method, started)
    try:
        data = await _receive_first(receive)
        while parser.answer is None:
            if data:
                parser.feed(data)
            else:
                parser.end()
            if parser.answer is None:
                data = await receive()
        return parser.answer, parser.is_reusable
    finally:
        parser.release()


async def _receive_first(receive: Callable[[], Awaitable[bytes]]) -> bytes:
    """Return the first bytes of an answer.

    :raises Unanswered: there are none.
    """
    try:
        data = await receive()
    except ConnectionError as error:
        raise Unanswered(str(error)) from error
    if not data:
        raise Unanswered(_CUT_OFF)
    return data


def render_request(request: Request, *, prefix: str, host: str, keep_alive: bool) -> bytes:
    """Return the bytes of a request.

    :param prefix: of its target.
    :param host: what it is addressed to, if it does not say so.
    :param keep_alive: whether another one may follow on the same connection.
    :raises ValueError: HTTP has no such request.
    """
    headers = omit_hop_by_hop(request.headers, "content-length")
    if find_header(headers, "host") is None:
        headers = (("Host", host), *headers)
    if request.body or request.method not in READS:
        headers = (*headers, ("Content-Length", str(len(request.body))))
    if not keep_alive:
        headers = (*headers, ("Connection", "close"))
    target = prefix + request.target
    if _TARGET_END.search(target):
        raise ValueError(f"HTTP has no target {target!r}")
    return _render(f"{request.method} {target} HTTP/1.1".encode(), headers, request.body)


def render_answer(
    answer: Answer, *, method: str, version: tuple[int, int], keep_alive: bool
) -> bytes:
    """Return the bytes of an answer, as it was but for what is about one connection.

    :param method: of the request.
    :param version: the client's of HTTP.
    :param keep_alive: whether the client's connection stays open.
    """
    headers = omit_hop_by_hop(answer.headers)
    has_body = method != "HEAD" and answer.status not in _WITHOUT_BODY
    if has_body and find_header(headers, "content-length") is None:
        # It came in chunks; it is sent in one piece.
        headers = (*headers, ("Content-Length", str(len(answer.body))))
    if keep_alive and version < HttpVersion11:
        headers = (*headers, ("Connection", "keep-alive"))
    elif not keep_alive and version >= HttpVersion11:
        headers = (*headers, ("Connection", "close"))
    line = f"HTTP/{version[0]}.{version[1]} {answer.status} {answer.reason}"
    return _render(line.encode("latin-1"), headers, answer.body)


def _render(line: bytes, headers: Headers, body: bytes) -> bytes:
    """Return the bytes of a message.

    :raises ValueError: a header goes over the end of its line.
    """
    lines = [f"{name}: {value}" for name, value in headers]
    if any(map(_LINE_END.search, lines)):
        raise ValueError("a header goes over the end of its line")
    return b"".join([line, b"\r\n", "\r\n".join([*lines, "", ""]).encode("latin-1"), body])
