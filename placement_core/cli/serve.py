"""``placement-core serve``: the service, hosted by Granian.

The parent process checks everything that can be wrong before it opens the port,
so that an operator sees one line and not the traceback of a worker. Workers are
forked by a server that imports what they need meanwhile (``fork_server``): each builds its own
application. One more process carries out what is due of leases (``processes``).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import logging
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable

from oslo_config import cfg

from placement_core import conf, configured_database, errors
from placement_core.cli import (
    base,
    config_options,
    fork_server,
    processes,
    supervisor,
    web_server,
)
from placement_core.collector import no_garbage_collection
from placement_core.http import local_callers, probes

LOG = logging.getLogger(__name__)

_DEFAULT_BIND = "127.0.0.1:8778"
#: As many writes as may share a transaction; fewer make claims slower, more help nobody
#: (measured).
_DEFAULT_THREADS = 16
#: Beside those of requests that are processed or wait: they answer health checks, and refuse what
#: need not wait.
_SPARE_THREADS = 4
#: Half of the files that a process may usually have.
_DEFAULT_CONNECTIONS = 512
_DEFAULT_HEAD_SECONDS = 20
#: How often a server that starts is asked whether it answers, and how long that may take.
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 20
#: Whoever listens on all addresses answers on that of loopback.
_CONNECT_TO = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class Serve(base.Command):
    """Serve the API over HTTP.

    An SQLite database is made or upgraded first; for others run "db sync".
    SIGTERM and SIGINT refuse new connections and let requests finish, within
    --graceful-timeout; SIGHUP starts new workers. A manager runs beside the workers: it
    starts and ends leases on time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--bind", metavar="HOST:PORT", default=_DEFAULT_BIND, type=_parse_address,
            help=f"where to listen (default: {_DEFAULT_BIND}); [::]:8778 for IPv6")
        parser.add_argument(
            "--workers", metavar="N", default=1, type=_parse_positive,
            help="worker processes (default: 1); about one for each processor")
        parser.add_argument(
            "--threads", metavar="N", default=_DEFAULT_THREADS, type=_parse_positive,
            help="how many requests each worker processes at a time (default: "
            f"{_DEFAULT_THREADS}), unless [api] max_concurrent_requests says; more rarely help")
        parser.add_argument(
            "--connections", metavar="N", default=_DEFAULT_CONNECTIONS, type=_parse_positive,
            help="how many connections each worker has open at once (default: "
            f"{_DEFAULT_CONNECTIONS}); others wait until one is closed")
        parser.add_argument(
            "--head-timeout", metavar="SECONDS", default=_DEFAULT_HEAD_SECONDS,
            type=_parse_positive,
            help="for how long a connection may be idle, or send the head of a request, before "
            f"it is closed (default: {_DEFAULT_HEAD_SECONDS})")
        parser.add_argument(
            "--graceful-timeout", metavar="SECONDS", default=supervisor.STOP_SECONDS,
            type=_parse_positive,
            help="for how long requests may finish after SIGTERM before they are cut "
            f"(default: {supervisor.STOP_SECONDS}); what stops the service should wait for "
            "longer before it kills it")
        parser.add_argument(
            "--watch-bind", metavar="HOST:PORT", type=_parse_address,
            help="serve GET /capacity/v1/changes there, too, in a process of its own that takes "
            "thousands of watchers; each needs an open file (ulimit -n)")
        parser.add_argument(
            "--no-manager", action="store_true",
            help="leave the manager out; \"placement-core manager\" runs elsewhere")
        parser.add_argument(
            "--behind-proxy", action="store_true",
            help="listen on an address that other machines can reach, because a proxy that "
            "holds requests back until they are complete is all that does reach it (see "
            "etc/placement/nginx.conf.sample)")
        parser.add_argument(
            "--allow-insecure", action="store_true",
            help="listen on a public address without a proxy, and although auth_strategy = "
            "noauth2 lets everybody in")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        hangups = _note_hangups()
        options = self.conf(parsed_args)
        host, port = parsed_args.bind
        insecure = parsed_args.allow_insecure
        watch_bind = parsed_args.watch_bind
        for address in (host, *(watch_bind or ())[:1]):
            if not (insecure or options.api.allow_remote_noauth2):
                _refuse_public_noauth(options, address)
            if not (insecure or parsed_args.behind_proxy):
                _refuse_without_proxy(address)
        listeners = _bind(host, port, parsed_args.workers)
        if watch_bind is not None:
            # Its process would only say so in its log.
            with _bind_one(*watch_bind, reuse_port=False):
                pass
        _start_fork_server()
        database_url = _prepare(options, self.say)
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        workers = parsed_args.workers
        stop_seconds = parsed_args.graceful_timeout
        files, folders = config_options.get_config_sources(self.app_args, parsed_args)
        server = web_server.WebServer(
            # names the application; ``processes.load_application`` makes it
            __name__, listeners, threads=_count_threads(options, parsed_args.threads),
            connections=parsed_args.connections, head_seconds=parsed_args.head_timeout,
            stop_seconds=stop_seconds,
            check_reload=functools.partial(_check_anew, files, folders, parsed_args.threads))
        line = (
            f"placement-core serves on {url} ({workers} worker{'s'[:workers > 1]} of "
            f"{_count_processed(options, parsed_args.threads)} threads, {database_url}, "
            f"{options.api.auth_strategy})")
        server.on_startup(threading.Thread(
            target=_say_when_alive, args=(host, port, self.say, line), daemon=True).start)
        server.on_startup(lambda: hangups and server.signal_handler_reload())
        with (tempfile.TemporaryDirectory(prefix="placement-core-metrics-") as metrics_folder,
              contextlib.ExitStack() as stack):
            # Each process reads the rest of the configuration itself.
            inheritance = processes.Inheritance(
                files, folders, insecure, stop_seconds, metrics_folder)
            children = {}
            if not parsed_args.no_manager:
                children["manager"] = functools.partial(processes.run_manager, inheritance)
            if watch_bind is not None:
                children["server of watchers"] = functools.partial(
                    processes.serve_watchers, inheritance, watch_bind, parsed_args.head_timeout)
            for name, target in children.items():
                child = supervisor.Child(name, target, stop_seconds)
                server.on_startup(child.start)
                server.on_reload(child.renew)
                server.on_stop(child.request_end)
                stack.callback(child.end)
            server.serve(
                target_loader=functools.partial(
                    processes.load_application, inheritance, parsed_args.threads),
                wrap_loader=False)
        return 0


def _note_hangups() -> list[int]:
    """Have each SIGHUP noted until the server handles them; return the list of them.

    By default it would end the process, without a line in the log, and systemd takes that for a
    wanted end. Children would inherit that it is ignored.
    """
    hangups: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _frame: hangups.append(number))
    return hangups


def _start_fork_server() -> None:
    try:
        fork_server.start()
    except OSError as error:
        raise base.Failed(
            "the server that forks processes does not start: expected a folder for temporary "
            f"files (TMPDIR), in which it makes a socket: {error}") from error


def _count_processed(options: cfg.ConfigOpts, threads: int) -> int:
    """Return how many requests a worker processes at a time."""
    most_requests: int = options.api.max_concurrent_requests
    return most_requests or threads


def _count_threads(options: cfg.ConfigOpts, threads: int) -> int:
    """Return how many threads a worker needs; most of them exist only while requests wait."""
    most_requests = _count_processed(options, threads)
    most_waiting: int = options.api.max_waiting_requests
    # Each that waits for changes has one, too (``services``: two fewer than are processed).
    watchers = max(0, most_requests - 2)
    return most_requests + most_waiting + watchers + _SPARE_THREADS


def _prepare(options: cfg.ConfigOpts, say: Callable[[str], None]) -> str:
    """Make an SQLite database's schema, and check all that workers need; return the URL."""
    with no_garbage_collection():
        # Most of what there is to import, and the manager's process does without it.
        from placement_core import app

    settings = configured_database.make_settings(options)
    if settings.connection.startswith("sqlite") or options.placement_database.sync_on_startup:
        from placement_core.migrations import sync

        configured_database.wait_until_it_answers(options)
        sync.sync(settings, _skip_unchanged(say))
    return app.check(options)


def _check_anew(
    config_files: list[str] | None, config_dirs: list[str] | None, threads: int
) -> int:
    """Check what the configuration says by now, before new workers go by it.

    :returns: how many threads each of them needs.
    :raises errors.Error: one line: option, value, expectation.
    :raises Exception: of the database, or a defect.
    """
    from placement_core import app

    options = conf.load(config_files=config_files, config_dirs=config_dirs, embedded=True)
    # Nobody ends the service or replaces a worker that died until this returns.
    options.set_override("max_retries", 0, "placement_database")
    app.check(options)
    return _count_threads(options, threads)


def _say_when_alive(host: str, port: int, say: Callable[[str], None], line: str) -> None:
    """Print a line as soon as a worker answers."""
    while not _is_alive(_CONNECT_TO.get(host, host), port):
        time.sleep(_POLL_SECONDS)
    say(line)


def _is_alive(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", probes.LIVENESS_PATH)
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def _skip_unchanged(say: Callable[[str], None]) -> Callable[[str], None]:
    """Say what changes the database, and skip lines about what is up to date."""
    return lambda line: None if line.endswith("already") else say(line)


def _refuse_public_noauth(options: cfg.ConfigOpts, host: str) -> None:
    if options.api.auth_strategy == "noauth2" and not local_callers.is_loopback(host):
        raise errors.ConfigurationError(
            f"--bind {host}: [api] auth_strategy = noauth2 believes whatever a caller says, so "
            "it is served on 127.0.0.1 only; use keystone, or repeat with --allow-insecure")


def _refuse_without_proxy(host: str) -> None:
    """Refuse a public address without a proxy: nothing here times out a slow request body.

    A thread waits for it, and as many such requests as there are threads block a worker.
    """
    if not local_callers.is_loopback(host):
        raise base.Failed(
            f"--bind {host}: expected a loopback address, because a client that is slow to send "
            "holds a thread for as long as it likes; put a proxy before the service "
            "(etc/placement/nginx.conf.sample), and repeat with --behind-proxy if that is all "
            "that reaches this address, or with --allow-insecure")


def _bind(host: str, port: int, count: int) -> list[socket.socket]:
    """Bind sockets to one address: a worker that cannot would only say so in its log.

    The kernel spreads connections over those that listen (SO_REUSEPORT).
    """
    # Without it: another service's may have it, too.
    with _bind_one(host, port, reuse_port=False):
        pass
    return [_bind_one(host, port, reuse_port=True) for _ in range(count)]


def _bind_one(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise base.Failed(f"--bind {host}:{port}: {error.strerror}") from error
    return listener


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as {_DEFAULT_BIND}")
    return host, int(port)


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
