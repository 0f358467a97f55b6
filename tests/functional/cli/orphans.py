"""A process whose parent dies, and that can do nothing any more once it is told to end."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import time
from multiprocessing import connection

from placement_core.cli import supervisor


def start_child(tell: connection.Connection) -> None:
    """Start a child, tell its pid once it is there, and live on."""
    ready = multiprocessing.Event()
    child = multiprocessing.Process(target=_hang_when_told, args=(ready,), daemon=True)
    child.start()
    ready.wait()
    tell.send(child.pid)
    time.sleep(1000)


def _hang_when_told(ready: multiprocessing.synchronize.Event) -> None:
    # Functions that are called in this way keep the interpreter.
    library = ctypes.PyDLL(None)
    signal.signal(signal.SIGTERM, lambda *_: library.sleep(1000))
    supervisor.end_with_parent(stop_seconds=1)
    ready.set()
    while True:
        time.sleep(0.1)
