"""The proxy itself: aiohttp before one side, with the other behind it, and the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import uvloop
from aiohttp import HttpVersion11, web

from placement_core import errors
from placement_core.shadow import connections, microversions, rereading, switching, wire
from placement_core.shadow.control import MOST_CHARACTERS
from placement_core.shadow.errors import BadOption, NotSwitched, WrongMode
from placement_core.shadow.following import Follower, Passing
from placement_core.shadow.messages import Answer, Headers, NoAnswer, Request
from placement_core.shadow.modes import Side
from placement_core.shadow.state import State
from placement_core.shadow.touched import is_followed, is_of_keystone

LOG = logging.getLogger(__name__)

#: For how long what waits is applied when the proxy ends.
_DRAIN_SECONDS = 60.0
_UNREACHABLE = "shadow.unreachable"
#: The longest line of a head: queries for candidates are long.
_LINE_BYTES = 128 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a proxy is started with.

    :ivar urls: where each side answers.
    :ivar token_file: has a token to read again with; None: that of the last write is used.
    :ivar keystone_url: where Keystone answers, without /v3; None: its limits are left alone.
    :ivar set_generation: sets the generation of a provider of ours, up or down: (uuid, the one
        that it has, the one that it gets). None: those that are ahead stay unresolved.
    """

    host: str
    port: int
    urls: Mapping[Side, str]
    state: pathlib.Path
    control: pathlib.Path
    compare_percent: float
    most_waiting: int
    token_file: pathlib.Path | None = None
    keystone_url: str | None = None
    set_generation: Callable[[str, int, int], None] | None = None


class HTTPService:
    """One side, over HTTP.

    :param keystone_url: where what begins with /v3 is answered; None: by the same.
    """

    def __init__(self, url: str, keystone_url: str | None = None) -> None:
        self._placement, self._keystone = (
            connections.Connections(connections.Origin(origin.rstrip("/")))
            for origin in (url, keystone_url or url))

    def close(self) -> None:
        """Close all connections that nobody uses."""
        self._placement.close()
        self._keystone.close()

    def connecting(
        self, request: Request
    ) -> contextlib.AbstractContextManager[connections.Connection]:
        """Begin to connect for a request that ``ask`` gets next; yield what it needs for that."""
        return self._find_server(request).connecting(request)

    async def ask(
        self, request: Request, connection: connections.Connection | None = None
    ) -> Answer:
        """Return its answer, which may take as long as the client waits.

        :param connection: the one that ``connecting`` yields for it.
        :raises NoAnswer: there is none.
        """
        return await self._find_server(request).ask(request, connection)

    def _find_server(self, request: Request) -> connections.Connections:
        return self._keystone if is_of_keystone(request.target) else self._placement


class _Passed(web.StreamResponse):
    """An answer of a side, as it is: aiohttp adds nothing to it, and takes nothing away."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(status=answer.status, reason=answer.reason)
        self._answer = answer
        self._is_kept = False

    @property
    def keep_alive(self) -> bool:
        """Whether the client's connection stays open."""
        return self._is_kept

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send it."""
        self._is_kept = request.keep_alive
        await request.writer.write(wire.render_answer(
            self._answer, method=request.method, version=request.version,
            keep_alive=self._is_kept))

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: it was sent in one piece."""


class Proxy:
    """What clients reach.

    :param services: both sides.
    :param has_limits: whether Keystone's limits are both sides', too.
    """

    def __init__(
        self, services: Mapping[Side, HTTPService], state: State, follower: Follower,
        gate: switching.Gate, *, has_limits: bool,
    ) -> None:
        self._has_limits = has_limits
        self._services = services
        self._state = state
        self._follower = follower
        self._gate = gate

    async def handle(self, web_request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request as the side does that answers now."""
        if (web_request.version >= HttpVersion11
                and web_request.headers.get("Expect", "").lower() == "100-continue"):
            await web_request.writer.write(_CONTINUE)
        # What a client sends is for the side that answers to bound.
        body = await web_request.content.read()
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in web_request.raw_headers)
        request = Request(web_request.method, web_request.raw_path, headers, body)
        await self._gate.enter()
        side = self._state.mode.answering
        passing: Passing | None = None
        answer: Answer | None = None
        try:
            if not is_followed(request.target) or (
                    is_of_keystone(request.target) and not self._has_limits):
                # Tokens, projects and the like stay Keystone's.
                answer = await self._services[Side.UPSTREAM].ask(request)
            else:
                with self._services[side].connecting(request) as connection:
                    passing = self._follower.begin(request)
                    answer = await self._services[side].ask(request, connection)
        except NoAnswer as error:
            return _Passed(_refuse(error))
        finally:
            # The client does not wait for what follows. It comes in the order of the answers,
            # and before anything that the client sends next: callbacks run in order.
            asyncio.get_running_loop().call_soon(self._finish, passing, answer)
        return _Passed(answer)

    def _finish(self, passing: Passing | None, answer: Answer | None) -> None:
        try:
            if passing is not None:
                self._follower.end(passing, answer)
        finally:
            self._gate.leave()


class Controls:
    """What the control socket offers.

    :param state: whose counts are written on demand.
    """

    def __init__(self, state: State, switch: switching.Switch) -> None:
        self._state = state
        self._switch = switch

    def make_app(self) -> web.Application:
        """Return the application."""
        app = web.Application()
        app.router.add_post("/flush", self.flush)
        app.router.add_post("/{command}", self.change)
        return app

    async def flush(self, _request: web.Request) -> web.StreamResponse:
        """Write the counts, for whoever is about to read them."""
        self._state.flush()
        return web.Response(text=_spell({"result": {}}))

    async def change(self, web_request: web.Request) -> web.StreamResponse:
        """Change the mode; answer lines of how far it is, and of what became of it."""
        command = web_request.match_info["command"]
        options = await web_request.json()
        lines: asyncio.Queue[str | None] = asyncio.Queue()

        def report(what: str, done: int, total: int) -> None:
            lines.put_nowait(_spell({"what": what, "done": done, "total": total}))

        async def run() -> None:
            try:
                lines.put_nowait(_spell({"result": await self._change(command, options, report)}))
            except (NotSwitched, WrongMode) as error:
                lines.put_nowait(_spell({"error": str(error)}))
            finally:
                lines.put_nowait(None)

        # It goes on if whoever asked for it goes away.
        task = asyncio.create_task(run())
        response = web.StreamResponse()
        await response.prepare(web_request)
        while (line := await lines.get()) is not None:
            await response.write(line.encode())
        await task
        return response

    async def _change(
        self, command: str, options: Mapping[str, object], report: rereading.Report
    ) -> dict[str, object]:
        if command in switching.STOPS:
            mode = await self._switch.stop_following(switching.STOPS[command])
            return {"mode": mode}
        if command not in switching.FLIPS:
            raise NotSwitched(f"there is no command {command}")
        done = await self._switch.flip(
            switching.FLIPS[command], hold_seconds=float(str(options["hold"])),
            max_differences=int(str(options["max_differences"])),
            dry_run=bool(options["dry_run"]), report=report)
        LOG.info("%s: %s", command, self._state.mode.describe())
        return dataclasses.asdict(done)


def run(settings: Settings, say: Callable[[str], None]) -> None:
    """Run a proxy until SIGTERM or SIGINT.

    :param say: prints a line once it answers.
    :raises errors.Error: it cannot start: one line.
    """
    uvloop.run(_run_until_signal(settings, say))


async def _run_until_signal(settings: Settings, say: Callable[[str], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with serve(settings, say):
        await stopped.wait()


@contextlib.asynccontextmanager
async def serve(settings: Settings, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Run a proxy; at the end, refuse connections and apply what waits.

    :raises errors.Error: it cannot start: one line.
    """
    if len(str(settings.control)) > MOST_CHARACTERS:
        raise BadOption("--control", settings.control,
                        f"expected at most {MOST_CHARACTERS} characters")
    async with contextlib.AsyncExitStack() as stack:
        state = stack.enter_context(State(settings.state))
        services = {
            side: HTTPService(
                url, settings.keystone_url if side is Side.UPSTREAM else None)
            for side, url in settings.urls.items()}
        for service in services.values():
            stack.callback(service.close)
        version = state.version
        if version is None:
            # Later starts do without it: one side may be away just then.
            version = state.version = await _find_version(settings, services)
        follower = Follower(
            services, state, compare_percent=settings.compare_percent,
            most_waiting=settings.most_waiting, version=version,
            find_token=lambda: _read_token(settings.token_file),
            set_generation=_make_set_generation(settings.set_generation))
        stack.push_async_callback(follower.drain_within, _DRAIN_SECONDS)
        gate, has_limits = switching.Gate(), settings.keystone_url is not None
        controls = Controls(state, switching.Switch(
            state, follower, gate, has_limits=has_limits))
        await stack.enter_async_context(_serve_control(controls.make_app(), settings.control))
        background = asyncio.create_task(follower.run())
        stack.callback(background.cancel)
        proxy = Proxy(services, state, follower, gate, has_limits=has_limits)
        await stack.enter_async_context(
            _serve(proxy.handle, settings.host, settings.port))
        say(f"placement-core shadows on http://{settings.host}:{settings.port}, before "
            f"{settings.urls[Side.UPSTREAM]} and {settings.urls[Side.OURS]}; "
            f"{state.mode.describe()}")
        yield


async def _find_version(
    settings: Settings, services: Mapping[Side, HTTPService]
) -> tuple[int, int]:
    """Return the newest microversion that both sides speak.

    :raises BadOption: a side is away, or speaks none that is new enough.
    """
    versions = []
    for side, service in services.items():
        option = f"--{side}"
        try:
            version = await rereading.find_newest_version(service)
        except (NoAnswer, ValueError) as error:
            raise BadOption(option, settings.urls[side], str(error)) from error
        oldest = microversions.CONSUMER_GENERATIONS
        if version < oldest:
            raise BadOption(option, settings.urls[side], (
                f"it speaks microversions up to {version[0]}.{version[1]}; expected "
                f"{oldest[0]}.{oldest[1]} or newer"))
        versions.append(version)
    return min(versions)


@contextlib.asynccontextmanager
async def _serve(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], host: str, port: int
) -> AsyncIterator[None]:
    """Answer clients."""
    runner = web.ServerRunner(web.Server(
        handle, access_log=None, auto_decompress=False, max_line_size=_LINE_BYTES,
        max_field_size=_LINE_BYTES))
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise BadOption("--bind", f"{host}:{port}", error.strerror or str(error)) from error
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _serve_control(app: web.Application, path: pathlib.Path) -> AsyncIterator[None]:
    """Listen for commands of whoever owns the proxy."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    # What a proxy left that was killed: the lock of the state says that it runs no more.
    path.unlink(missing_ok=True)
    earlier = os.umask(0o177)
    try:
        try:
            await web.UnixSite(runner, str(path)).start()
        except OSError as error:
            raise BadOption("--control", path, error.strerror or str(error)) from error
        finally:
            os.umask(earlier)
        yield
    finally:
        await runner.cleanup()
        path.unlink(missing_ok=True)


def _refuse(error: NoAnswer) -> Answer:
    """Return the answer of a proxy that reaches nobody."""
    LOG.warning("%s", error)
    body = json.dumps({"errors": [{
        "status": 502, "title": "Bad Gateway", "detail": str(error), "code": _UNREACHABLE}]})
    headers: Headers = (("Content-Type", "application/json"),)
    return Answer(502, "Bad Gateway", headers, body.encode())


def _read_token(path: pathlib.Path | None) -> str | None:
    return path.read_text().strip() if path else None


def _make_set_generation(
    set_generation: Callable[[str, int, int], None] | None
) -> rereading.SetGeneration | None:
    """Return what sets a generation in a thread of its own."""
    if set_generation is None:
        return None

    async def set_in_thread(uuid: str, seen: int, generation: int) -> None:
        try:
            await asyncio.to_thread(set_generation, uuid, seen, generation)
        except errors.Error as error:
            raise rereading.Refused(
                f"its generation {seen} cannot be set to {generation} in the database: {error}"
            ) from error

    return set_in_thread


def _spell(message: Mapping[str, object]) -> str:
    return json.dumps(message) + "\n"
