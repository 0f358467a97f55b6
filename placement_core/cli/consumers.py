"""``placement-core consumers list``: who has which allocations."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.cli.claims import Allocations
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id
from placement_core.placement import providers
from placement_core.placement.allocations import consumer_list
from placement_core.placement.records import UNKNOWN_TYPE


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
            project_id = None if project is None else find_project_id(parts, ctx, project)
            records = base.read_pages(
                lambda marker, size: consumer_list.list_(
                    ctx, project_id=project_id, user_id=parsed_args.user,
                    consumer_type=parsed_args.type, provider_uuid=parsed_args.provider,
                    marker=marker, limit=size),
                lambda consumer: consumer.uuid, parsed_args.marker, parsed_args.limit)
            names = CatalogNames(parts, ctx, self.note)
            hosts = providers.get_names(
                ctx, {uuid for consumer in records for uuid in consumer.allocations})
            return ("uuid", "consumer_type", "project_id", "project_name", "user_id",
                    "allocations"), [
                (consumer.uuid, consumer.consumer_type or UNKNOWN_TYPE, consumer.project_id,
                 names.node(consumer.project_id), consumer.user_id,
                 Allocations((consumer.allocations, hosts)))
                for consumer in records]
