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
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import context, forkserver
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
                return
            except (EOFError, ConnectionError):
                # A server that is killed answers no more before anybody knows that it is dead.
                time.sleep(_PAUSE_SECONDS)
        raise OSError("the server that forks processes does not answer")


def start() -> None:
    """Start the server if it does not run; only the first process waits for what it imports."""
    forkserver.set_forkserver_preload([_PRELOADED])
    with _blocked(_IGNORED):
        forkserver.ensure_running()


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
