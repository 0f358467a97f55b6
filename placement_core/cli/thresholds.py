"""``placement-core thresholds list``: limits that fill up, and capacity that is short."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.cli.names import CatalogNames
from placement_core.thresholds import monitor


class ListThresholds(base.Lister):
    """List the thresholds that are reached now.

    Managers look for them where [thresholds] enabled is set; what is listed is as it was when one
    of them looked last. Of a limit, the level is a
    percentage of it; of capacity, bound is how many more of the request should fit.
    """

    empty = "No threshold is reached."
    beside = ("uuid", "node_id")

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            names = CatalogNames(parts, ctx, self.note)
            rows = []
            for reached in monitor.list_(ctx):
                measurement, subject = reached.measurement, reached.measurement.subject
                rows.append((
                    subject.uuid, subject.kind, subject.node_id, names.node(subject.node_id),
                    subject.scope, subject.user_id, subject.resource_name, reached.level,
                    measurement.bound, measurement.measured, reached.reached_at.isoformat()))
            return ("uuid", "kind", "node_id", "node_name", "scope", "user_id",
                    "resource_name", "level", "bound", "measured", "reached_at"), rows
