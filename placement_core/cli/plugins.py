"""``placement-core plugins list``: which drivers are installed."""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Iterable

from placement_core.cli import base

#: Entry points of every kind of driver are in groups that begin with this.
_PREFIX = "placement_core."


class List(base.Lister):
    """List the installed drivers of every kind, and where each comes from."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[str, ...]]]:
        """Run the command."""
        rows = sorted(
            (point.group.removeprefix(_PREFIX), point.name, point.value, _get_origin(point))
            for group in importlib.metadata.entry_points().groups
            if group.startswith(_PREFIX)
            for point in importlib.metadata.entry_points(group=group)
        )
        return ("Kind", "Name", "Class", "Distribution"), rows


def _get_origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
