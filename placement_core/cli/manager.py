"""``placement-core manager``: executes the events of leases, in a process of its own."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Callable

from oslo_config import cfg

from placement_core import (
    collector,
    configured_database,
    logs,
    metrics,
    services,
    tracing,
)
from placement_core.cli import base
from placement_core.http.leases_api import representations
from placement_core.migrations import compatibility

#: Of the database options.
_GROUP, _IDLE = "placement_database", "idle_in_transaction_timeout_seconds"


class RunManager(base.Command):
    """Start and end leases on time, and do what else is due, until SIGTERM or SIGINT.

    "serve" runs one of these by itself. Any number may run, on any number of machines:
    each event is carried out once.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        options = self.conf(parsed_args)
        parts = prepare(options)
        # Errors until here are printed in one line.
        logs.set_up(options)
        run(parts, self.say, stop_at=(signal.SIGTERM, signal.SIGINT))
        return 0


def prepare(options: cfg.ConfigOpts) -> services.Services:
    """Build the parts of a manager, and check that they can be used.

    :raises errors.Error: they cannot.
    """
    _lose_locks_with_events(options)
    if options.tracing.enabled:
        tracing.start()
    parts = services.build(options)
    try:
        configured_database.wait_until_it_answers(options)
        compatibility.require_newest(parts.database)
    except BaseException:
        parts.database.dispose()
        raise
    return parts


def run(
    parts: services.Services, say: Callable[[str], None], *, stop_at: tuple[signal.Signals, ...]
) -> None:
    """Run a manager, in the main thread, until a signal stops it.

    :param say: is told that it runs.
    """
    try:
        if parts.conf.metrics.enabled and metrics.FOLDER_VARIABLE in os.environ:
            # Workers of the same service count into the same folder, and one of them is scraped.
            metrics.start()
        manager = parts.manager(representations.LEASE)
        for number in stop_at:
            signal.signal(number, lambda *_: manager.stop())
        say(f"placement-core manager {manager.owner} carries out events "
            f"({manager.settings.threads} threads, "
            f"{parts.database.masked_url})")
        collector.freeze_loaded()
        manager.run()
        logging.getLogger(__name__).info("manager %s has stopped", manager.owner)
    finally:
        parts.database.dispose()


def _lose_locks_with_events(options: cfg.ConfigOpts) -> None:
    """Let the database end the transaction of a manager that hangs when its time is over.

    The manager that takes its events then would wait for the rows that it has locked.
    """
    configured = options[_GROUP][_IDLE]
    ours = options.reservations.event_timeout_seconds
    options.set_override(_IDLE, min(configured or ours, ours), _GROUP)
