"""Thousands of watchers in one process, without a thread for each.

An RSGI application before the WSGI application of the service. Every answer is that of the WSGI
application, in a thread of a few, so callers are authenticated, and may read, as everywhere. It is
asked again when something was committed; in between, a watcher is a coroutine that waits for one
event which all of them share.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import http
import io
import logging
import sys
import urllib.parse
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from wsgiref.handlers import BaseHandler
from wsgiref.types import WSGIApplication

import orjson

from placement_core import errors
from placement_core.feed.tokens import decode
from placement_core.http import media, probes
from placement_core.http.capacity_api.views import changes

LOG = logging.getLogger(__name__)

PATH = "/capacity/v1/changes"
#: How often the database is asked whether anything was committed, while somebody waits.
_EVERY_SECONDS = 0.1
#: For how many seconds a client may ask to wait.
_WAITS = {str(seconds) for seconds in range(31)}
#: Then a stream ends. The server queues whatever a client does not read, and does not tell how
#: much that is; the next stream of the client has a connection, and a queue, of its own.
_MOST_STREAM_BYTES = 8 * 1024 * 1024
#: Of the answer that a stream begins with; the stream has its own.
_HEADERS_OF_ONE_ANSWER = ("content-type", "content-length", "cache-control")
#: The digest of nothing: whoever has read something reads again.
_UNKNOWN = (-1, -1)

Digest = tuple[int, int]


class Scope(Protocol):
    """A request, as RSGI has it."""

    method: str
    path: str
    query_string: str
    scheme: str
    client: str
    headers: Any


class Answer(NamedTuple):
    """An answer of the WSGI application."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class CommitEvent:
    """Wakes all who wait as soon as the database has another digest.

    :param read_digest: reads it; called in a thread.
    """

    def __init__(
        self, read_digest: Callable[[], Digest], threads: concurrent.futures.Executor
    ) -> None:
        self._read_digest = read_digest
        self._threads = threads
        self._digest: Digest | None = None
        self._waiting = 0
        self._moved = asyncio.Event()
        self._somebody_waits = asyncio.Event()
        self.stopped = False

    def stop(self) -> None:
        """Let nobody wait any more."""
        self.stopped = True
        self._moved.set()
        self._somebody_waits.set()

    async def wait(self, digest: Digest, seconds: float) -> bool:
        """Wait until the database has another digest; return whether it has."""
        if seconds <= 0:  # beside busy writers there is always something new
            return False
        self._waiting += 1
        self._somebody_waits.set()
        try:
            async with asyncio.timeout(seconds):
                while not self.stopped:
                    if self._digest is not None and self._digest != digest:
                        return True
                    await self._moved.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1
        return False

    async def follow(self) -> None:
        """Ask the database, while somebody waits, until it is stopped."""
        loop = asyncio.get_running_loop()
        while not self.stopped:
            if not self._waiting:
                # What was known may be old when the next one comes.
                self._digest = None
                self._somebody_waits.clear()
                await self._somebody_waits.wait()
                continue
            try:
                digest = await loop.run_in_executor(self._threads, self._read_digest)
            except errors.Unavailable:
                # Those who wait ask, and are told.
                digest = _UNKNOWN
            except Exception:
                if self._digest != _UNKNOWN:  # Once, not ten times a second.
                    LOG.exception("the commits cannot be followed")
                digest = _UNKNOWN
            if digest != self._digest:
                self._digest = digest
                self._moved.set()
                self._moved = asyncio.Event()
            await asyncio.sleep(_EVERY_SECONDS)


class WatchApplication:
    """Answers ``GET /capacity/v1/changes``, and probes.

    :param app: the WSGI application, which nobody waits in.
    :param commits: tells when to ask it again.
    """

    def __init__(
        self, app: WSGIApplication, commits: CommitEvent, threads: concurrent.futures.Executor
    ) -> None:
        self._app = app
        self._commits = commits
        self._threads = threads

    async def __call__(self, scope: Scope, protocol: Any) -> None:
        """Answer one request."""
        if scope.path not in (PATH, *probes.ALL):
            protocol.response_str(404, [("content-type", "text/plain")], (
                f"This port is for GET {PATH} only.\n"))
            return
        query = urllib.parse.parse_qs(scope.query_string, keep_blank_values=True)
        wants_events = media.EVENTS in scope.headers.get("accept", "").lower()
        if wants_events and scope.headers.get("last-event-id"):
            query["after"] = [scope.headers.get("last-event-id")]
        seconds = 0
        if query.get("wait", [""])[-1] in _WAITS:
            # The WSGI application is not to wait. What else is said is for it to refuse.
            seconds = int(query.pop("wait")[-1])
        answer = await self._ask(scope, query)
        # A browser asks with another method what it may do, and gets no changes.
        if answer.status == 200 and scope.path == PATH and scope.method == "GET":
            if wants_events:
                await self._stream(scope, protocol, query, answer)
                return
            answer = await self._wait(scope, query, answer, seconds)
        protocol.response_bytes(answer.status, answer.headers, answer.body)

    async def _wait(
        self, scope: Scope, query: dict[str, list[str]], answer: Answer, seconds: int,
    ) -> Answer:
        """Return the answer as soon as it has changes, or when the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while answer.status == 200:
            document = orjson.loads(answer.body)
            if not _is_empty(document) or not await self._commits.wait(
                    _get_digest(document), deadline - loop.time()):
                return answer
            answer = await self._ask_again(scope, query, document["next"])
        return answer

    async def _stream(
        self, scope: Scope, protocol: Any, query: dict[str, list[str]], answer: Answer
    ) -> None:
        headers = [(name, value) for name, value in answer.headers
                   if name.lower() not in _HEADERS_OF_ONE_ANSWER]
        stream = protocol.response_stream(200, [
            *headers, ("content-type", media.EVENTS), ("cache-control", "no-store"),
            ("x-accel-buffering", "no")])
        sending = asyncio.ensure_future(self._send(scope, stream, query, answer))
        gone = asyncio.ensure_future(protocol.client_disconnect())
        done, pending = await asyncio.wait(
            {sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if sending in done and sending.exception() is not None:
            LOG.debug("a watcher went away", exc_info=sending.exception())

    async def _send(
        self, scope: Scope, stream: Any, query: dict[str, list[str]], answer: Answer
    ) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + changes.LONGEST_STREAM_SECONDS
        pulse_at, is_first, sent_bytes = loop.time(), True, 0
        while answer.status == 200:
            document = orjson.loads(answer.body)
            if document["changes"] or is_first:
                event = changes.make_event(
                    document["next"], answer.body if document["changes"] else None)
                await stream.send_bytes(event)
                sent_bytes += len(event)
                if sent_bytes >= _MOST_STREAM_BYTES:
                    return
                pulse_at, is_first = loop.time() + changes.PULSE_SECONDS, False
            if not document["more"]:
                # Both once: a thousand idle watchers cost little but their comments.
                digest, pulse = _get_digest(document), changes.make_event(document["next"], None)
                while not await self._commits.wait(digest, pulse_at - loop.time()):
                    if self._commits.stopped or loop.time() >= ends_at:
                        return
                    await stream.send_bytes(pulse)
                    pulse_at = loop.time() + changes.PULSE_SECONDS
            if loop.time() >= ends_at:
                return
            answer = await self._ask_again(scope, query, document["next"])
        await stream.send_bytes(changes.make_error_event(*_read_error(answer)))

    async def _ask_again(
        self, scope: Scope, query: dict[str, list[str]], token: str
    ) -> Answer:
        """Ask for what follows a token."""
        answer = await self._ask(scope, {**query, "after": [token]})
        if answer.status == 200 and _is_empty(orjson.loads(answer.body)):
            # Beside busy writers, a watcher that does not want their changes is woken at once.
            await asyncio.sleep(_EVERY_SECONDS)
        return answer

    async def _ask(self, scope: Scope, query: dict[str, list[str]]) -> Answer:
        """Ask the WSGI application."""
        environ = _make_environ(scope, urllib.parse.urlencode(query, doseq=True))
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, _call, self._app, environ)


def _is_empty(document: dict[str, Any]) -> bool:
    return not (document["changes"] or document["more"])


def _get_digest(document: dict[str, Any]) -> Digest:
    """Return the digest of the database that an answer was read from, if there is no more."""
    position = decode(document["next"]).position
    return position.revision, position.digest


def _read_error(answer: Answer) -> tuple[str, str]:
    """Return the code of an error, and the sentence that a worker's event has of it."""
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    match document:
        case {"errors": [{"code": code, "detail": detail}, *_]}:
            # The explanation of the status comes first, on a line of its own.
            return code, detail.strip().rpartition("\n")[2].strip()
        case {"error": {"message": message}} | {"message": message}:
            # Keystone's, or ours in its place: a 401, which has no code.
            return errors.Error.code, message
    return errors.Error.code, http.HTTPStatus(answer.status).phrase


def _call(app: WSGIApplication, environ: dict[str, Any]) -> Answer:
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_exc_info: Any) -> Any:
        started[:] = [(status, headers)]

    body = app(environ, start_response)
    try:
        chunks = b"".join(body)
    finally:
        if hasattr(body, "close"):
            body.close()
    [(status, headers)] = started
    return Answer(int(status[:3]), headers, chunks)


def _make_environ(scope: Scope, query_string: str) -> dict[str, Any]:
    """Return the environment of a request that asks for JSON."""
    environ: dict[str, Any] = {
        f"HTTP_{name.upper().replace('-', '_')}": value for name, value in scope.headers.items()
        if name not in ("accept", "content-length", "content-type", "last-event-id")}
    host, _, port = environ.get("HTTP_HOST", "localhost").partition(":")
    return environ | {
        "REQUEST_METHOD": scope.method, "SCRIPT_NAME": "", "PATH_INFO": scope.path,
        "QUERY_STRING": query_string, "SERVER_NAME": host, "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_ACCEPT": "application/json",
        # IPv6 has brackets, which belong to the port.
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "wsgi.version": BaseHandler.wsgi_version,
        "wsgi.url_scheme": scope.scheme, "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False}
