"""``placement-core usages list``: what all projects use."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from placement_core.cli import base
from placement_core.cli.names import CatalogNames
from placement_core.context import Context
from placement_core.placement.usage import usage_list
from placement_core.placement.usage.usage_list import ListedUsage

#: How many projects are read at a time.
_PAGE = 1000


class ListUsages(base.Lister):
    """List what projects use that use anything, in the order of their ids."""

    empty = "No project uses anything."

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            usages = list(_read_all(ctx))
            names = CatalogNames(parts, ctx, self.note)
            return ("project_id", "project_name", "consumer_count", "resources"), [
                (usage.project_id, names.node(usage.project_id), usage.consumer_count,
                 _Resources(dict(usage.resources)))
                for usage in usages]


class _Resources(base.FormattableColumn):
    """Amounts by resource class."""

    def human_readable(self) -> str:
        """Return a line for each class."""
        return "\n".join(f"{amount} {name}" for name, amount in self._value.items())


def _read_all(ctx: Context) -> Iterator[ListedUsage]:
    marker = None
    while True:
        page = usage_list.list_(ctx, marker=marker, limit=_PAGE)
        yield from page.usages
        marker = page.next_marker
        if marker is None:
            return
