"""``placement-core demo``: something to look at."""

from __future__ import annotations

import argparse

from placement_core.catalog import domains
from placement_core.cli import base, demo_cloud
from placement_core.context import Context
from placement_core.limits import registered
from placement_core.reservations.leases import lease_queries
from placement_core.services import Services


class FillDemo(base.Command):
    """Fill an empty database with a small cloud: hosts, projects, limits, servers and leases.

    Thirty hosts in three racks, three levels of projects, leases of hosts and of slots. A
    database that has anything of the kind is refused. Run "db sync" or "serve" first.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            _require_local_drivers(parts)
            _require_empty(parts, ctx)
            demo_cloud.fill(parts, ctx, self.say)
        return 0


def _require_local_drivers(parts: Services) -> None:
    if not (parts.catalog.local and parts.limits.transactional):
        raise base.Failed(
            "[catalog] driver and [limits] driver: expected local for both, because the demo "
            "has projects and limits of its own")


def _require_empty(parts: Services, ctx: Context) -> None:
    present = [name for name, is_present in (
        ("resource providers", parts.index.snapshot(ctx).size > 0),
        ("domains", bool(domains.list_(ctx))),
        ("registered limits", bool(registered.list_(ctx, []))),
        ("leases", bool(lease_queries.page(ctx, limit=1))),
    ) if is_present]
    if present:
        raise base.Failed(
            f"{parts.database.masked_url} is not empty, it has {', '.join(present)}: the demo "
            "needs a database of its own")
