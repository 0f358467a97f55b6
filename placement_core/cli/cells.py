"""``placement-core cells …`` and ``instances …``: which cells there are, and who is where."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable
from typing import Any

from placement_core import errors
from placement_core.cells import instances, mappings, schema
from placement_core.cells.records import Cell
from placement_core.cli import base
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]
Fields = tuple[tuple[str, ...], tuple[object, ...]]

#: Instead of a URL: read it from standard input, which others cannot see.
_STDIN = "-"

_NO_CELLS = "There are no cells; `placement-core cells add` adds one."

#: A century.
_MOST_DAYS = 36_500


class _OnCell(base.Configured):
    """A command about one cell."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("cell", metavar="CELL", help="the name or uuid of a cell")
        return parser


class AddCell(base.Shower):
    """Add a cell; no connection to its database is made yet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        _add_urls(parser, required=True)
        parser.add_argument("--uuid", metavar="UUID", help="by default a random one")
        parser.add_argument("--disable", action="store_true",
                            help="nothing new is scheduled there; it is counted all the same")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _make_fields(mappings.create(
                ctx, parts.cells, name=parsed_args.name, uuid=parsed_args.uuid,
                disabled=parsed_args.disable, **{"transport_url": "", **_get_urls(parsed_args)}))


class SetCell(_OnCell, base.Shower):
    """Change the name or the URLs of a cell."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", metavar="NAME")
        _add_urls(parser, required=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        changes = _get_urls(parsed_args)
        if parsed_args.name is not None:
            changes["name"] = parsed_args.name
        with self.parts(parsed_args) as (parts, ctx):
            return _make_fields(mappings.update(ctx, parts.cells, parsed_args.cell, changes))


class EnableCell(_OnCell, base.Shower):
    """Say that instances may be scheduled to a cell."""

    disabled = False

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _make_fields(mappings.update(
                ctx, parts.cells, parsed_args.cell, {"disabled": self.disabled}))


class DisableCell(EnableCell):
    """Say that nothing new is to be scheduled to a cell; it is counted all the same."""

    disabled = True


class RemoveCell(_OnCell, base.Command):
    """Remove a cell that nothing is mapped to; its database stays as it is."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            mappings.delete(ctx, parts.cells, parsed_args.cell)
        return 0


class ListCells(base.Lister):
    """List cells. Passwords are not shown."""

    empty = _NO_CELLS

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _COLUMNS, [_make_row(cell) for cell in parts.cells.cells(ctx)]


class CheckCells(base.Lister):
    """Ask cells whether their databases answer, and have the tables that are needed.

    All are asked at the same time, and waited for as [cells] timeout_seconds says. Exit
    code 1: one does not answer, or lacks a table.
    """

    empty = _NO_CELLS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("cells", metavar="CELL", nargs="*",
                            help="the names or uuids of cells; by default all")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            cells = parts.cells.cells(ctx)
            if parsed_args.cells:
                cells = [mappings.pick(cells, name) for name in parsed_args.cells]
            checked = schema.check(ctx, parts.cells, cells)
        reasons = {cell.uuid: cell.reason for cell in checked.missing}
        rows = []
        for cell in cells:
            tables = checked.answers.get(cell.uuid)
            missing = None if tables is None else [
                name for name in schema.TABLES if name not in tables]
            if tables is None or missing:
                self.exit_code = 1
            rows.append((
                cell.name, cell.uuid, tables is not None,
                round(checked.seconds[cell.title], 3), base.Words(tables), base.Words(missing),
                reasons.get(cell.uuid)))
        return ("name", "uuid", "answers", "seconds", "tables", "missing_tables",
                "reason"), rows


class SyncCells(base.Lister):
    """Make the tables that the databases of cells lack: instances, compute_nodes and so on.

    For cells that have no nova, which makes its own. A table that is there stays as it
    is. Safe to repeat. Exit code 1: one of the cells could not be reached.
    """

    empty = _NO_CELLS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("cells", metavar="CELL", nargs="*",
                            help="the names or uuids of cells")
        parser.add_argument("--all", action="store_true", help="every cell there is")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        if parsed_args.all == bool(parsed_args.cells):
            raise base.Failed("name cells, or say --all")
        rows: list[tuple[object, ...]] = []
        with self.parts(parsed_args) as (parts, ctx), self.progress() as progress:
            cells = parts.cells.cells(ctx)
            if not parsed_args.all:
                cells = [mappings.pick(cells, name) for name in parsed_args.cells]
            for number, cell in enumerate(cells, 1):
                try:
                    created, reason = schema.sync(ctx, parts.cells, cell), None
                except (errors.Unavailable, errors.ConfigurationError) as error:
                    created, reason, self.exit_code = [], str(error), 1
                rows.append((cell.name, cell.uuid, base.Words(created), reason))
                progress.report("cells", number, len(cells))
        return ("name", "uuid", "made", "reason"), rows


class ListInstances(base.Lister):
    """List instances in the order of creation, those that are deleted too."""

    beside = ("project_id", "cell_uuid")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument("--user", metavar="ID", help="only those of this user")
        parser.add_argument("--cell", metavar="CELL", help="only those in this cell")
        state = parser.add_mutually_exclusive_group()
        state.add_argument("--deleted", action="store_true", default=None,
                           help="only those that are deleted")
        state.add_argument("--not-deleted", action="store_false", dest="deleted", default=None,
                           help="only those that are not deleted")
        parser.add_argument("--limit", metavar="N", type=int, help="how many at most")
        parser.add_argument("--marker", metavar="UUID", help="only those after this one")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        if parsed_args.limit is not None and parsed_args.limit < 1:
            raise base.Failed("--limit: expected a number from 1 on")
        self.empty = "No instances are mapped to cells" + base.describe_filters(
            project=parsed_args.project, user=parsed_args.user, cell=parsed_args.cell,
            deleted=parsed_args.deleted, marker=parsed_args.marker) + "."
        with self.parts(parsed_args) as (parts, ctx):
            project = parsed_args.project
            records = instances.list_(
                ctx, parts.cells,
                project_id=None if project is None else find_project_id(parts, ctx, project),
                user_id=parsed_args.user, cell=parsed_args.cell,
                queued_for_delete=parsed_args.deleted, marker=parsed_args.marker,
                limit=parsed_args.limit)
            names = CatalogNames(parts, ctx, self.note)
            cell_names = {cell.uuid: cell.name for cell in parts.cells.cells(ctx)}
            return ("uuid", "project_id", "project_name", "user_id", "cell_uuid", "cell_name",
                    "queued_for_delete"), [
                (instance.uuid, instance.project_id, names.node(instance.project_id),
                 instance.user_id, instance.cell_uuid, base.NameOrId((
                     cell_names.get(instance.cell_uuid or ""), instance.cell_uuid)),
                 instance.queued_for_delete)
                for instance in records]


class PurgeInstances(base.Command):
    """Remove the rows of instances that were deleted long ago.

    Only in the service's own database; nova removes those in its own.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--days", metavar="N", type=int, required=True,
                            help="those that were marked as deleted before so many days, from 1 "
                            "on; until then they can be brought back")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        if not 1 <= parsed_args.days <= _MOST_DAYS:
            raise base.Failed(f"--days: expected a number from 1 to {_MOST_DAYS}")
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=parsed_args.days)
        with self.parts(parsed_args) as (parts, ctx):
            removed = instances.purge(ctx, parts.cells, before=before)
        self.say(f"{removed} instances removed")
        return 0


def _add_urls(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--database", metavar="URL", required=required,
                        help=f"its database, as an SQLAlchemy URL; {_STDIN} reads the URL from "
                        "standard input, because others can see command lines")
    parser.add_argument("--transport-url", metavar="URL",
                        help="its message bus; kept for nova, not used here")


def _get_urls(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the URLs of the command line, by their names in a cell mapping."""
    database = parsed_args.database
    if database == _STDIN:
        database = sys.stdin.readline().strip()
    urls = {"database_connection": database, "transport_url": parsed_args.transport_url}
    return {name: url for name, url in urls.items() if url is not None}


_COLUMNS = ("name", "uuid", "database_connection", "transport_url", "disabled")


def _make_row(cell: Cell) -> tuple[object, ...]:
    return cell.name, cell.uuid, cell.masked_connection, cell.masked_transport, cell.disabled


def _make_fields(cell: Cell) -> Fields:
    return _COLUMNS, _make_row(cell)


