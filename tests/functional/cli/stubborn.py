"""A process that does not end at SIGTERM."""

from __future__ import annotations

import os
import pathlib
import signal
import threading


def run(folder: str) -> None:
    """Leave a file with the process's id as its name, and go on until killed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path(folder, str(os.getpid())).touch()
    threading.Event().wait()
