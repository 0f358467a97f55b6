"""The process of ``serve --watch-bind``: changes, for thousands of watchers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import signal
from collections.abc import Callable

from granian import constants, http as granian_http, log as granian_log
from granian.server import embed
from oslo_config import cfg

from placement_core import app, services
from placement_core.changes import vector
from placement_core.http.capacity_api.watchers import CommitEvent, WatchApplication

#: How many answers are made at a time; watchers that wait need none of these threads.
THREADS = 8
#: How many watchers there may be, if the process may open as many files.
_CONNECTIONS = 16_384
_BACKLOG = 1024
_HEAD_BYTES = 128 * 1024


def run(
    options: cfg.ConfigOpts, host: str, port: int, head_seconds: int,
    say: Callable[[str], None],
) -> None:
    """Serve until SIGTERM."""
    # It says of itself, at each start, that it is experimental.
    granian_log.logger.addFilter(lambda record: "experimental" not in record.getMessage())
    options.set_override("max_concurrent_requests", THREADS, "api")
    # One commit wakes all watchers of a project: their answers take turns in the threads.
    options.set_override("max_concurrent_requests_per_project", 0, "api")
    asyncio.run(_serve(options, host, port, head_seconds, say))


async def _serve(
    options: cfg.ConfigOpts, host: str, port: int, head_seconds: int,
    say: Callable[[str], None],
) -> None:
    parts = services.build(options)
    with concurrent.futures.ThreadPoolExecutor(THREADS, "watch") as threads:
        commits = CommitEvent(lambda: vector.read_digest(parts.context()), threads)
        server = embed.Server(
            WatchApplication(app.make_app(options), commits, threads),
            address=host, port=port, interface=constants.Interfaces.RSGI, websockets=False,
            http=constants.HTTPModes.http1, backlog=_BACKLOG, backpressure=_CONNECTIONS,
            http1_settings=granian_http.HTTP1Settings(
                header_read_timeout=head_seconds * 1000, max_buffer_size=_HEAD_BYTES),
            log_level=granian_log.LogLevels.warning)

        def stop() -> None:
            commits.stop()
            server.stop()  # type: ignore[no-untyped-call]

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        follower = asyncio.create_task(commits.follow())
        say(f"watchers are served on {host}:{port}")
        await server.serve()
        await follower
    parts.database.dispose()
    logging.getLogger(__name__).info("no watchers are served any more")
