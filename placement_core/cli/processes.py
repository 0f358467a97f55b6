"""What the processes of ``placement-core serve`` do, once they have been started.

This module imports little, because the parent imports it, too. Where the processes are forked,
most of what the functions import is there already (``fork_server``).
"""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from placement_core import metrics
from placement_core.cli import supervisor
from placement_core.collector import freeze_loaded, no_garbage_collection

if TYPE_CHECKING:
    from oslo_config import cfg

LOG = logging.getLogger(__name__)

#: Options of mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD (bytes), M_ARENA_MAX.
_MALLOC = {-3: 32 * 1024**2, -1: 64 * 1024**2, -8: 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Inheritance:
    """What all processes have from their parent.

    :ivar stop_seconds: for how long each may finish what it does when it is told to end.
    :ivar metrics_folder: where all count, also those that replace others.
    """

    config_files: list[str] | None
    config_dirs: list[str] | None
    allow_insecure: bool
    stop_seconds: int
    metrics_folder: str

    def begin(self) -> None:
        """Belong to the parent, in a process that has just been started."""
        supervisor.end_with_parent(self.stop_seconds)
        os.environ[metrics.FOLDER_VARIABLE] = self.metrics_folder

    def load_options(self, *, buffered: bool = False) -> cfg.ConfigOpts:
        """Read the configuration, and log as it says."""
        from placement_core import conf, logs

        options = conf.load(
            config_files=self.config_files, config_dirs=self.config_dirs, embedded=True)
        logs.set_up(options, buffered=buffered)
        return options


def load_application(inheritance: Inheritance, threads: int) -> Callable[..., Any]:
    """Build the application, in a worker that processes ``threads`` requests at a time."""
    inheritance.begin()
    _keep_memory()
    with no_garbage_collection():
        from placement_core import app, errors

        options = inheritance.load_options(buffered=True)
        if inheritance.allow_insecure:
            options.set_override("allow_remote_noauth2", True, "api")
        if not options.api.max_concurrent_requests:
            options.set_override("max_concurrent_requests", threads, "api")
        try:
            application = app.make_app(options, on_end=supervisor.call_when_told_to_end)
        except errors.ConfigurationError as error:
            LOG.critical("%s", error)
            sys.exit(1)
    freeze_loaded()
    return application


def run_manager(inheritance: Inheritance) -> None:
    """Carry out events, in a process of its own, until the parent says that it ends."""
    inheritance.begin()
    # Ctrl-C in a terminal is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with no_garbage_collection():
        from placement_core import errors
        from placement_core.cli import manager

        try:
            parts = manager.prepare(inheritance.load_options())
        except errors.Error as error:
            LOG.critical("%s", error)
            sys.exit(1)
    manager.run(parts, LOG.info, stop_at=(signal.SIGTERM,))


def serve_watchers(
    inheritance: Inheritance, address: tuple[str, int], head_seconds: int
) -> None:
    """Serve watchers, in a process of its own, until the parent says that it ends."""
    inheritance.begin()
    # Ctrl-C in a terminal is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with no_garbage_collection():
        from placement_core import errors
        from placement_core.cli import watch_server

        options = inheritance.load_options()
    if inheritance.allow_insecure:
        options.set_override("allow_remote_noauth2", True, "api")
    try:
        watch_server.run(options, *address, head_seconds, LOG.info)
    except errors.ConfigurationError as error:
        LOG.critical("%s", error)
        sys.exit(1)


def _keep_memory() -> None:
    """Let this worker reuse the memory of one large answer for the next.

    An answer of megabytes is put together and handed to the HTTP server in
    memory that the C library would give back to the system each time, and half
    of the answer's time would go into getting it again, page by page. One
    arena for all threads, so that it is kept once.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # Only the GNU C library has it.
        for option, value in _MALLOC.items():
            mallopt(option, value)
