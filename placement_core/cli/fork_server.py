"""The server that forks the processes of ``placement-core serve``: ``multiprocessing``'s own.

It imports most of the service while the parent does so, too, and checks the configuration. Each
process is forked from it: what takes longest about a start is there, and its memory is shared. The
server has read no configuration and no secret, and has no connection and no thread of ours, so
what is forked from it begins as a new process would.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import signal
import socket
import time
import types
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import context, forkserver, reduction
from typing import Any

_PRELOADED = "placement_core.cli.preloaded"
#: Whoever ends or reloads the service may send these to all of its processes. The server ends
#: with the last of the others.
_IGNORED = (signal.SIGTERM, signal.SIGHUP)
#: An option of prctl(2).
_PR_SET_PDEATHSIG = 1
#: How often a process is tried while the server dies, and the pause between two attempts.
_MOST_ATTEMPTS, _PAUSE_SECONDS = 50, 0.1


class Process(context.ForkServerProcess):
    """A process that the server forks.

    It ends if the server dies, because its parent cannot know of it any more then.

    :param target: is called in it, with ``args``.
    """

    def __init__(
        self, name: str, target: Callable[..., object], args: Sequence[Any] = (), *,
        daemon: bool = False,
    ) -> None:
        super().__init__(name=name, target=_call, args=(target, *args), daemon=daemon)

    def start(self) -> None:
        """Start it, and the server before if that does not run.

        :raises OSError: there can be no process more now.
        """
        for _ in range(_MOST_ATTEMPTS):
            start()
            try:
                super().start()
            except (EOFError, ConnectionError):
                # A server that is killed answers no more before anybody knows that it is dead.
                time.sleep(_PAUSE_SECONDS)
            else:
                self._check_pid()
                return
        raise OSError("the server that forks processes does not answer")

    def _check_pid(self) -> None:
        if self.pid is not None and self.pid < 0:  # ``_FailingForks`` says why there is none
            number = -self.pid
            self.join()
            raise OSError(number, os.strerror(number))


def start() -> None:
    """Start the server if it does not run; only the first process waits for what it imports."""
    forkserver.set_forkserver_preload([_PRELOADED])
    with _blocked(_IGNORED):
        forkserver.ensure_running()


def survive_failing_forks() -> None:
    """Let the server, in which this is called, go on where the system forks no process more.

    Of its own accord it ends then, and with it all that it has forked.
    """
    forks = _FailingForks()
    replaced: dict[str, dict[str, Any]] = {
        "reduction": {"recvfds": forks.receive}, "os": {"fork": forks.fork}}
    for name, functions in replaced.items():
        module = getattr(forkserver, name)
        setattr(forkserver, name, types.SimpleNamespace(**{**vars(module), **functions}))


class _FailingForks:
    """Answers who asks for a process that cannot be forked with the negative number of the error.

    The server closes the descriptors of a process after it was forked. Where it was not, it leaves
    them open, and who asks would wait.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def receive(self, connection: socket.socket, size: int) -> list[int]:
        """Receive the descriptors for a process; the second is for the answer."""
        self._descriptors = reduction.recvfds(connection, size)
        return self._descriptors

    def fork(self) -> int:
        """Fork a process.

        :raises ConnectionAbortedError: there is none; this is the error that the server ignores.
        """
        try:
            return os.fork()
        except OSError as error:
            with contextlib.suppress(BrokenPipeError):
                forkserver.write_signed(self._descriptors[1], -(error.errno or errno.EAGAIN))
            for descriptor in self._descriptors:
                os.close(descriptor)
            raise ConnectionAbortedError(errno.ECONNABORTED, "no process was forked") from error


@contextlib.contextmanager
def _blocked(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _call(target: Callable[..., object], *args: Any) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # only Linux has it
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
    try:
        target(*args)
    finally:
        # As other processes do at their end, and these do from Python 3.14 on: what they have
        # logged is written, for example.
        atexit._run_exitfuncs()
