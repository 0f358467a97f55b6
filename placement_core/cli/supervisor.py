"""Child processes of a command, which end with it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, process

from placement_core.cli import fork_server

LOG = logging.getLogger(__name__)

#: For how long a process may finish what it does after SIGTERM, by default.
STOP_SECONDS = 30
#: The pause before a restart; doubled while the process keeps dying.
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
#: What lives for longer than this does not die of the way it is started.
_HEALTHY_SECONDS = 60.0
#: How long the thread that kills a process has for that.
_KILL_SECONDS = 1.0


class Child:
    """A process that is started again when it dies.

    :param name: its name in the log.
    :param target: what it does, as ``multiprocessing`` takes it for a new process.
    :param stop_seconds: for how long it may finish what it does after SIGTERM; then it is killed.
    """

    def __init__(self, name: str, target: Callable[[], None], stop_seconds: float) -> None:
        self._name = name
        self._target = target
        self._stop_seconds = stop_seconds
        self._ending = threading.Event()
        self._renewed = threading.Event()
        self._process: process.BaseProcess | None = None
        self._watcher = threading.Thread(target=self._watch, name=f"keep-{name}", daemon=True)

    def start(self) -> None:
        """Start it, and watch over it in a thread of its own."""
        self._watcher.start()

    def renew(self) -> None:
        """End the process that there is; another one takes its place at once.

        Nobody waits for that here.
        """
        self._renewed.set()
        if self._process is not None:
            self._stop(self._process)

    def request_end(self) -> None:
        """Tell it to finish what it does and to end, and do not wait for that."""
        if not self._ending.is_set():
            self._ending.set()
            self.renew()

    def end(self) -> None:
        """Let it finish what it does, and end it."""
        self.request_end()
        if not self._watcher.is_alive():
            return
        # Without a thread that kills it, it is killed here.
        self._watcher.join(self._stop_seconds + _KILL_SECONDS)
        if self._watcher.is_alive() and self._process is not None:
            self._process.kill()
            self._watcher.join()

    def _stop(self, child: process.BaseProcess) -> None:
        """Tell a process to end, and have it killed when its time is over."""
        child.terminate()
        try:
            threading.Thread(target=self._kill_late, args=(child,), name=f"end-{self._name}",
                             daemon=True).start()
        except RuntimeError as error:
            LOG.warning("the %s is not killed if it does not end: %s", self._name, error)

    def _kill_late(self, child: process.BaseProcess) -> None:
        # Without ``join``: the process is reaped by the watcher alone.
        if not connection.wait([child.sentinel], self._stop_seconds):
            LOG.warning(
                "the %s did not end in %d s and is killed", self._name, self._stop_seconds)
            child.kill()

    def _watch(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._renewed.clear()
            if self._ending.is_set():
                return
            began = time.monotonic()
            outcome = self._run()
            if time.monotonic() - began > _HEALTHY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            if self._renewed.wait(pause):
                pause = _FIRST_PAUSE_SECONDS
            else:
                LOG.warning("the %s %s and is started again", self._name, outcome)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _run(self) -> str:
        """Start the process and wait for its end; return what became of it."""
        try:
            child = fork_server.Process(self._name, self._target, daemon=True)
            child.start()
        except Exception as error:  # noqa: BLE001  nobody else would start it
            return f"could not be started ({error})"
        self._process = child
        if self._renewed.is_set():
            # By then ``renew`` may have seen the one before it.
            self._stop(child)
        child.join()
        return f"ended ({child.exitcode})"


class Interrupt:
    """What the main thread waits for, and signal handlers and other threads set.

    Handlers run in the main thread: with ``threading.Event``, one that comes while the thread
    enters or leaves ``wait`` waits for a lock that this thread holds, forever. Here, ``set`` is
    reentrant.
    """

    def __init__(self) -> None:
        self._times: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Let ``wait`` return once more."""
        self._times.put(None)

    def wait(self) -> None:
        """Wait until it is set; return once for each time."""
        self._times.get()

    def clear(self) -> None:
        """Do nothing: who waits looks at what has happened each time it returns."""


def call_when_told_to_end(hook: Callable[[], None]) -> None:
    """Call a function once this process gets SIGTERM or SIGINT, in a thread of its own.

    Whoever handles the signals: a worker of Granian sets its handlers after this, and its main
    thread does not come back to the interpreter before all requests have ended. The number of a
    signal is written to the descriptor where it arrives. Call it in the main thread, and once.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)

    def wait() -> None:
        # For as long as there is a process: it may get several.
        while True:
            if {*receiver.recv(64)} & {signal.SIGTERM, signal.SIGINT}:
                hook()

    threading.Thread(target=wait, name="wait-for-end", daemon=True).start()


def end_with_parent(stop_seconds: float) -> None:
    """Stop this process once its parent is gone, however that ended; in a thread.

    A worker without a parent would go on serving without anything to stop it, and
    keep the address from the next start.

    :param stop_seconds: for how long it may finish what it does then.
    """
    threading.Thread(
        target=_wait_for_parent, args=(stop_seconds,), name="end-with-parent",
        daemon=True).start()


def _wait_for_parent(stop_seconds: float) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    # It may be waiting for a parent that will never answer, or for anything else while no thread
    # of it can run, so the system ends it: nothing here handles this signal.
    signal.setitimer(signal.ITIMER_REAL, max(stop_seconds, 1))
    os.kill(os.getpid(), signal.SIGTERM)
