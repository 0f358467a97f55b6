"""``placement-core usage intervals`` and ``usage totals``: who held what, for charging."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core import services
from placement_core.cli import base, moments
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id
from placement_core.context import Context
from placement_core.placement.records import UNKNOWN_TYPE
from placement_core.placement.usage import intervals
from placement_core.placement.usage.intervals import UsageFilter

_Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class _UsageLister(base.Lister):
    """A command about usage intervals, with their filters."""

    empty = "There are no usage intervals like that."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument("--user", metavar="ID", help="only those of this user")
        parser.add_argument("--consumer", metavar="UUID", help="only those of this consumer")
        parser.add_argument("--resource-class", metavar="NAME", help="only those of this class")
        parser.add_argument("--from", dest="start", metavar="DATE", type=moments.parse_moment,
                            help=f"only what lasted beyond this date, {moments.HELP}")
        parser.add_argument("--to", dest="end", metavar="DATE", type=moments.parse_moment,
                            help="only what began before this date")
        return parser

    def note_gap(self, ctx: Context, filters: UsageFilter) -> None:
        """Say where the answer has to be incomplete."""
        since = intervals.get_complete_since(ctx)
        if filters.start_at is not None and filters.start_at < since:
            self.note(f"Of the time before {since.isoformat(' ', 'seconds')} not all is known.")


class ListUsageIntervals(_UsageLister):
    """List who held what from when to when, by consumer.

    The times are those of whole intervals, also where they exceed --from and --to. What has no
    end is held now.
    """

    beside = ("project_id", "consumer_type")

    def take_action(self, parsed_args: argparse.Namespace) -> _Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            filters = _make_filter(parts, ctx, parsed_args)
            self.note_gap(ctx, filters)
            records = base.read_pages(
                lambda marker, size: intervals.list_(ctx, filters, marker=marker, limit=size),
                lambda interval: interval.marker, None, None)
            names = CatalogNames(parts, ctx, self.note)
            return ("consumer_uuid", "consumer_type", "project_id", "project_name", "user_id",
                    "provider_uuid", "resource_class", "amount", "started_at", "ended_at"), [
                (record.consumer_uuid, record.consumer_type or UNKNOWN_TYPE, record.project_id,
                 names.node(record.project_id), record.user_id, record.provider_uuid,
                 record.resource_class, record.amount, record.started_at.isoformat(),
                 record.ended_at and record.ended_at.isoformat())
                for record in records]


class ListUsageTotals(_UsageLister):
    """List what projects used between --from and --to, in amounts times seconds."""

    beside = ("project_id",)

    def take_action(self, parsed_args: argparse.Namespace) -> _Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            filters = _make_filter(parts, ctx, parsed_args)
            self.note_gap(ctx, filters)
            totals = intervals.add_up(ctx, filters)
            names = CatalogNames(parts, ctx, self.note)
            return ("project_id", "project_name", "resource_class", "amount_seconds"), [
                (total.project_id, names.node(total.project_id), total.resource_class,
                 total.amount_seconds) for total in totals]


def _make_filter(
    parts: services.Services, ctx: Context, parsed_args: argparse.Namespace
) -> UsageFilter:
    project = parsed_args.project
    return UsageFilter(
        None if project is None else find_project_id(parts, ctx, project), parsed_args.user,
        parsed_args.consumer, parsed_args.resource_class, parsed_args.start, parsed_args.end)
