"""``placement-core audit list``: who changed what."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core.changes import audit
from placement_core.changes.audit import AuditFilter
from placement_core.cli import base, moments
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id


class ListAudit(base.Lister):
    """List who changed what, the newest first.

    Nothing is recorded unless [audit] enabled is set.
    """

    empty = "There are no entries like that; they are recorded where [audit] enabled is set."
    beside = ("project_id", "transaction")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument("--user", metavar="ID", help="only what this user did")
        parser.add_argument("--request", metavar="ID", help="only what this request did")
        parser.add_argument("--operation", metavar="NAME",
                            help="only this operation, such as 'PUT /allocations/{consumer}'")
        parser.add_argument("--kind", metavar="KIND",
                            help="only objects of this kind, such as provider or consumer")
        parser.add_argument("--object", metavar="UUID", help="only what was done to this object")
        parser.add_argument("--from", dest="start", metavar="DATE", type=moments.parse_moment,
                            help=f"only from this date on, {moments.HELP}")
        parser.add_argument("--to", dest="end", metavar="DATE", type=moments.parse_moment,
                            help="only before this date")
        base.add_limit(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            project = parsed_args.project
            filters = AuditFilter(
                parsed_args.user,
                None if project is None else find_project_id(parts, ctx, project),
                parsed_args.request, parsed_args.operation, parsed_args.kind, parsed_args.object,
                parsed_args.start, parsed_args.end)
            entries = base.read_pages(
                lambda marker, size: audit.list_(ctx, filters, marker=marker, limit=size),
                lambda entry: entry.marker, None, parsed_args.limit)
            names = CatalogNames(parts, ctx, self.note)
            return ("at", "user_id", "project_id", "project_name", "request_id", "operation",
                    "kind", "uuid", "name", "transaction"), [
                (entry.at.isoformat(), entry.user_id, entry.project_id,
                 names.node(entry.project_id), entry.request_id, entry.operation, entry.kind,
                 entry.uuid, entry.name, f"{entry.txn:x}") for entry in entries]
