"""``placement-core providers list``: providers with all that belongs to them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Sequence

from placement_core.cli import base
from placement_core.placement import provider_list
from placement_core.placement.records import Inventory


class ListProviders(base.Lister):
    """List resource providers with inventories, traits and aggregates, by their uuids."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--in-tree", metavar="UUID",
                            help="only those of the tree that this provider is in")
        parser.add_argument("--member-of", metavar="UUID", help="only members of this aggregate")
        parser.add_argument("--limit", metavar="N", type=int, help="how many at most")
        parser.add_argument("--marker", metavar="UUID", help="only those after this one")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        if parsed_args.limit is not None and parsed_args.limit < 1:
            raise base.Failed("--limit: expected a number from 1 on")
        self.empty = "There are no providers" + base.describe_filters(
            in_tree=parsed_args.in_tree, member_of=parsed_args.member_of,
            marker=parsed_args.marker) + "."
        with self.parts(parsed_args) as (_, ctx):
            providers = base.read_pages(
                lambda marker, size: provider_list.list_(
                    ctx, in_tree=parsed_args.in_tree, member_of=parsed_args.member_of,
                    marker=marker, limit=size),
                lambda provider: provider.uuid, parsed_args.marker, parsed_args.limit)
        return ("uuid", "name", "parent_provider_uuid", "inventories", "traits", "aggregates"), [
            (provider.uuid, provider.name, provider.parent_uuid,
             _Inventories(provider.inventories), base.Words(provider.traits),
             base.Words(provider.aggregates))
            for provider in providers]


class _Inventories(base.FormattableColumn):
    """Inventories; people read what is used of how much."""

    def human_readable(self) -> str:
        """Return a line for each class."""
        inventories: Sequence[Inventory] = self._value
        return "\n".join(
            f"{item.resource_class}: {item.used} of {item.values.total}" for item in inventories)

    def machine_readable(self) -> dict[str, dict[str, float]]:
        """Return {resource class: values, with what is used}."""
        inventories: Sequence[Inventory] = self._value
        return {item.resource_class: {**dataclasses.asdict(item.values), "used": item.used}
                for item in inventories}
