"""Granian, as ``placement-core serve`` runs it.

It differs in three things. The listening socket of each worker is open for as long as the service
runs: connections that come while a worker is replaced wait in its backlog. (Of its own accord,
Granian's workers open their sockets; connections that wait there are reset when the worker ends.
One socket for all workers would spread connections badly: of 32 that come at once, one of two
workers accepts up to 29.) A reload starts each new worker, and waits until it has loaded the
application, before it ends the old one. And it tells others that it begins to stop, and says when
it cut requests.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import re
import socket
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

import granian
from granian import (
    _granian,
    _signals,
    constants,
    http as granian_http,
    log as granian_log,
    net,
)

from placement_core import errors
from placement_core.cli import fork_server, supervisor
from placement_core.db import failures

LOG = logging.getLogger(__name__)

#: A head with the longest query string that is read (``http.validation``), and more.
_HEAD_BYTES = 128 * 1024
#: How many connections wait for one that a worker closes.
_BACKLOG = 1024
#: How often what waits for a worker looks whether the service is told to stop.
_TICK_SECONDS = 0.1
#: For how long a new worker may load the application before the reload is given up.
_LOAD_SECONDS = 120


class WebServer(granian.Granian):  # type: ignore[misc, valid-type]
    """A parent process and its workers.

    :param listeners: one for each worker, all bound to the same address (SO_REUSEPORT), and not
        listening yet: a worker that is ready lets its own listen.
    :param connections: how many a worker has open at once; others wait in the backlog.
    :param head_seconds: how long a connection may take for the head of a request, or be idle
        before it.
    :param check_reload: finds out what would stop new workers, and raises it; returns how many
        threads each of them needs.
    """

    def __init__(
        self, name: str, listeners: Sequence[socket.socket], *, threads: int, connections: int,
        head_seconds: int, stop_seconds: int, check_reload: Callable[[], int],
    ) -> None:
        granian_log.logger.addFilter(_is_useful)
        host, port = listeners[0].getsockname()[:2]
        super().__init__(
            name,
            address=host,
            port=port,
            interface=constants.Interfaces.WSGI,
            workers=len(listeners),
            blocking_threads=threads,
            websockets=False,
            # HTTP/1.1 only: while it may still become HTTP/2, a connection has no deadline.
            http=constants.HTTPModes.http1,
            http1_settings=granian_http.HTTP1Settings(
                header_read_timeout=head_seconds * 1000, max_buffer_size=_HEAD_BYTES),
            backlog=_BACKLOG,
            backpressure=connections,
            # Our own log has a line for each request; Granian logs only warnings.
            log_level=granian_log.LogLevels.warning,
            respawn_failed_workers=True,
            respawn_interval=1,
            workers_kill_timeout=stop_seconds,
        )
        self.main_loop_interrupt = supervisor.Interrupt()
        self._listeners = listeners
        self._check_reload = check_reload
        self._stop_seconds = stop_seconds
        self._stop_hooks: list[Callable[[], None]] = []

    def on_stop(self, hook: Callable[[], None]) -> None:
        """Have a function called before workers are told to end (``on_shutdown``: after)."""
        self._stop_hooks.append(hook)

    def shutdown(self, exit_code: int = 0) -> None:
        """Refuse connections, let requests finish within the bound, and end."""
        started = time.monotonic()
        for hook in self._stop_hooks:
            hook()
        try:
            super().shutdown(exit_code)
        finally:
            if time.monotonic() - started >= self._stop_seconds:
                LOG.warning(
                    "requests did not finish in %d s (--graceful-timeout) and were cut",
                    self._stop_seconds)

    def _serve(self, spawn_target: Any, target_loader: Any) -> None:
        """Serve until told to end; end all with 1 if this process cannot go on.

        Else it would wait for its workers without its loop, so that nobody could end or replace
        them. Granian has an error of the system here if a worker died and another one cannot be
        started.
        """
        try:
            super()._serve(spawn_target, target_loader)
        except Exception:
            LOG.critical("the service ends, because it can keep its workers no more",
                         exc_info=True)
            try:
                self.shutdown(1)
            finally:
                # One whose thread could not be started is in no list of Granian's.
                for process in multiprocessing.active_children():
                    if not process.daemon:
                        process.kill()

    def _init_shared_socket(self) -> None:
        """Do nothing: there is a socket for each worker."""

    def _drop_shared_socket(self) -> None:
        """Close the sockets here; the workers do so when they are told to end."""
        for listener in self._listeners:
            listener.close()

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> Any:
        """Let a worker inherit its socket, as Granian does where there is no SO_REUSEPORT."""
        self._sso = self._listeners[idx]
        worker = super()._spawn_worker(idx, target, callback_loader)
        # Of its own accord Granian makes new processes, or forks this one.
        made = worker.inner
        worker.inner = fork_server.Process(
            made.name, _serve_listener, (self.backlog, made._target, *made._args))
        return worker

    def _reload(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace each worker by a new one; keep those that there are if that cannot be done."""
        self.reload_signal = False
        try:
            self.blocking_threads = self._check_reload()
        except Exception as error:
            # Whatever it is: the workers that there are need their parent.
            is_of_database = failures.is_of_database(error)
            LOG.error(
                "SIGHUP: %s; the workers stay as they are",
                failures.describe_error(error) if is_of_database else error,
                exc_info=not (is_of_database or isinstance(error, errors.Error)))
            return
        self._call_hooks(self.hooks_reload)
        for index in range(self.workers):
            try:
                worker = self._start_ready(index, spawn_target, target_loader)
            except (OSError, RuntimeError) as error:
                # The machine is short of memory, processes or files.
                LOG.error("SIGHUP: a new worker could not be started (%s); the old ones go on",
                          error)
                return
            if worker is None:
                return
            old, self.wrks[index] = self.wrks[index], worker
            self._end(old)

    def _start_ready(self, index: int, spawn_target: Any, target_loader: Any) -> Any:
        """Start a worker; return it when it is ready, and None when it will not be.

        :raises OSError: there can be no process more now.
        :raises RuntimeError: there can be no thread more that watches over it.
        """
        ready, tell = multiprocessing.Pipe(duplex=False)
        with ready, tell:
            worker = self._spawn_worker(
                idx=index, target=spawn_target,
                callback_loader=functools.partial(_load_and_tell, target_loader, tell))
            # Until it is ready, its end is no failure of the service.
            worker.interrupt_by_parent = True
            try:
                worker.start()
            except RuntimeError:
                # Its process has started by then.
                _kill(worker)
                raise
            tell.close()
            if self._is_ready(ready):
                worker.interrupt_by_parent = False
                return worker
        _kill(worker)
        return None

    def _is_ready(self, ready: connection.Connection) -> bool:
        deadline = time.monotonic() + _LOAD_SECONDS
        while not ready.poll(_TICK_SECONDS):
            if self.interrupt_signal:
                return False
            if time.monotonic() > deadline:
                LOG.error("SIGHUP: a new worker was not ready in %d s; the old ones go on",
                          _LOAD_SECONDS)
                return False
        try:
            ready.recv()
        except EOFError:
            LOG.error("SIGHUP: a new worker ended before it was ready; the old ones go on")
            return False
        return True

    def _end(self, worker: Any) -> None:
        """Let a worker finish its requests, and end it."""
        worker.terminate()
        deadline = time.monotonic() + self._stop_seconds
        while worker.is_alive() and time.monotonic() < deadline:
            if self.interrupt_signal:
                # It gets the time that all have then.
                self.wrks.append(worker)
                return
            worker.join(_TICK_SECONDS)
        if worker.is_alive():
            LOG.warning(
                "requests did not finish in %d s (--graceful-timeout) and were cut",
                self._stop_seconds)
            _kill(worker)


def _kill(worker: Any) -> None:
    worker.kill()
    worker.join()


def _serve_listener(
    backlog: int, serve: Callable[..., None], worker_id: int, process_name: str | None,
    load: Callable[[], Any], listening: tuple[Any, socket.socket], *options: Any,
) -> None:
    """Serve on the socket that came from the parent: its number may be another one here."""
    _, listener = listening
    # What its stub leaves out: (descriptor, whether of a Unix socket, backlog).
    holder = net.SocketHolder(  # type: ignore[attr-defined, call-arg]
        listener.fileno(), False, backlog)
    _signals.set_sync_signals = _heed_first_signal
    serve(worker_id, process_name, load, ((None, holder), listener), *options)


def _heed_first_signal() -> Any:
    """Do what Granian does about SIGTERM and SIGINT, but once.

    A worker may get several: from its parent, from who ends all processes, and because its parent
    is gone. A handler that tells Granian's threads again, while one of them is being told, waits
    for that one, which waits for the interpreter.
    """
    event = _granian.WorkerSignal()
    told = False

    def handle(_number: int, _frame: object) -> None:
        nonlocal told
        if not told:
            told = True
            event.set()

    _signals.set_main_signals(handle)  # type: ignore[no-untyped-call]
    return event


def _load_and_tell(load: Callable[[], Any], tell: connection.Connection) -> Any:
    """Load the application in a worker, and tell its parent; one that fails closes the pipe."""
    with tell:
        application = load()
        tell.send(None)
    return application


def _is_useful(record: logging.LogRecord) -> bool:
    """Tell which lines of Granian's an operator should see."""
    # It warns of more than two threads for each processor; most of ours wait for the database.
    # Of workers it may say that it kills them when they have just ended (``shutdown`` says when
    # it is true).
    return not re.match("Killing worker-|.*Python threads", record.getMessage())
