"""``placement-core consumers list``: who has which allocations."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.cli.claims import Allocations
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id
from placement_core.context import Context
from placement_core.placement import providers
from placement_core.placement.allocations import consumer_list
from placement_core.placement.allocations.consumer_list import Consumer
from placement_core.placement.records import UNKNOWN_TYPE

#: How many consumers are read at a time.
_PAGE = 1000


class ListConsumers(base.Lister):
    """List consumers with their owners and allocations, in the order of their uuids."""

    beside = ("project_id",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument("--user", metavar="ID", help="only those of this user")
        parser.add_argument("--type", metavar="TYPE",
                            help=f"only those of this type; {UNKNOWN_TYPE}: those without one")
        parser.add_argument("--provider", metavar="UUID",
                            help="only those with allocations on this provider")
        parser.add_argument("--limit", metavar="N", type=int, help="how many at most")
        parser.add_argument("--marker", metavar="UUID", help="only those after this one")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        if parsed_args.limit is not None and parsed_args.limit < 1:
            raise base.Failed("--limit: expected a number from 1 on")
        self.empty = "There are no consumers" + base.describe_filters(
            project=parsed_args.project, user=parsed_args.user, type=parsed_args.type,
            provider=parsed_args.provider, marker=parsed_args.marker) + "."
        with self.parts(parsed_args) as (parts, ctx):
            project = parsed_args.project
            records = _read_pages(
                ctx, parsed_args.marker, parsed_args.limit,
                project_id=None if project is None else find_project_id(parts, ctx, project),
                user_id=parsed_args.user, consumer_type=parsed_args.type,
                provider_uuid=parsed_args.provider)
            names = CatalogNames(parts, ctx, self.note)
            hosts = providers.get_names(
                ctx, {uuid for consumer in records for uuid in consumer.allocations})
            return ("uuid", "consumer_type", "project_id", "project_name", "user_id",
                    "allocations"), [
                (consumer.uuid, consumer.consumer_type or UNKNOWN_TYPE, consumer.project_id,
                 names.node(consumer.project_id), consumer.user_id,
                 Allocations((consumer.allocations, hosts)))
                for consumer in records]


def _read_pages(
    ctx: Context, marker: str | None, limit: int | None, **filters: str | None
) -> list[Consumer]:
    """Return consumers after a marker, read page by page.

    :param limit: the largest number of consumers to return; None: all of them.
    """
    found: list[Consumer] = []
    while True:
        size = _PAGE if limit is None else min(_PAGE, limit - len(found))
        page = consumer_list.list_(ctx, **filters, marker=marker, limit=size)
        found += page
        if len(page) < size or len(found) == limit:
            return found
        marker = page[-1].uuid
