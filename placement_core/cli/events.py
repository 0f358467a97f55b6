"""``placement-core events …``: what is due of leases, and letting what failed be tried again."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.reservations import records
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.manager import event_queue

_COLUMNS = ("id", "lease_id", "lease_name", "event_type", "due_at", "status", "owner",
            "attempts", "failures", "deadline_at", "problem")
_STATUSES = (records.UNDONE, records.IN_PROGRESS, records.DONE, records.E_ERROR)


class ListEvents(base.Lister):
    """List the events of leases that are not done, in the order in which they are due.

    One that failed is tried again at deadline_at; one that is being carried out is
    taken by another manager after that.
    """

    beside = ("lease_id",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--status", choices=_STATUSES, help="only these")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        self.empty = "Leases have no events that are still to be carried out" + (
            base.describe_filters(status=parsed_args.status)) + "."
        with self.parts(parsed_args) as (_, ctx):
            events = event_queue.list_(ctx, status=parsed_args.status)
            names = lease_queries.get_names(ctx, {event.lease_id for event in events})
        return _COLUMNS, [
            (event.id, event.lease_id,
             base.NameOrId((names.get(event.lease_id), event.lease_id)), event.event_type,
             event.due_at.isoformat(), event.status, event.owner, event.attempts,
             event.failures, _format_time(event.deadline_at), event.problem)
            for event in events]


class RetryEvent(base.Command):
    """Let an event that was given up (ERROR) be tried again, as if it had never failed."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("event", metavar="EVENT", help="its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            event_queue.retry(ctx, parsed_args.event)
        return 0


def _format_time(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
