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

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]
Fields = tuple[tuple[str, ...], tuple[object, ...]]

#: Instead of a URL: read it from standard input, which others cannot see.
_STDIN = "-"

#: A century.
_MOST_DAYS = 36_500


class _OnCell(base.Configured):
    """A command about one cell."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("cell", metavar="CELL", help="the name or uuid of a cell")
        return parser


class Add(base.Shower):
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


class Set(_OnCell, base.Shower):
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


class Enable(_OnCell, base.Shower):
    """Say that instances may be scheduled to a cell."""

    disabled = False

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _make_fields(mappings.update(
                ctx, parts.cells, parsed_args.cell, {"disabled": self.disabled}))


class Disable(Enable):
    """Say that nothing new is to be scheduled to a cell; it is counted all the same."""

    disabled = True


class Remove(_OnCell, base.Command):
    """Remove a cell that nothing is mapped to; its database stays as it is."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            mappings.delete(ctx, parts.cells, parsed_args.cell)
        return 0


class List(base.Lister):
    """List cells. Passwords are not shown."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _COLUMNS, [_make_row(cell) for cell in parts.cells.cells(ctx)]


class Check(base.Lister):
    """Ask cells whether their databases answer, and have the tables that are needed.

    All are asked at the same time, and waited for as [cells] timeout_seconds says. Exit
    code 1: one does not answer, or lacks a table.
    """

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
                round(checked.seconds[cell.title], 3), _NameList(tables), _NameList(missing),
                reasons.get(cell.uuid)))
        return ("name", "uuid", "answers", "seconds", "tables", "missing_tables",
                "reason"), rows


class Sync(base.Lister):
    """Make the tables that the databases of cells lack: instances, compute_nodes and so on.

    For cells that have no nova, which makes its own. A table that is there stays as it
    is. Safe to repeat. Exit code 1: one of the cells could not be reached.
    """

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
        with self.parts(parsed_args) as (parts, ctx):
            cells = parts.cells.cells(ctx)
            if not parsed_args.all:
                cells = [mappings.pick(cells, name) for name in parsed_args.cells]
            for cell in cells:
                try:
                    created, reason = schema.sync(ctx, parts.cells, cell), None
                except (errors.Unavailable, errors.ConfigurationError) as error:
                    created, reason, self.exit_code = [], str(error), 1
                rows.append((cell.name, cell.uuid, _NameList(created), reason))
        return ("name", "uuid", "made", "reason"), rows


class Instances(base.Lister):
    """List instances in the order of creation, those that are deleted too."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--project", metavar="ID", help="only those of this project")
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
        with self.parts(parsed_args) as (parts, ctx):
            records = instances.list_(
                ctx, parts.cells, project_id=parsed_args.project, user_id=parsed_args.user,
                cell=parsed_args.cell, queued_for_delete=parsed_args.deleted,
                marker=parsed_args.marker, limit=parsed_args.limit)
        return ("uuid", "project_id", "user_id", "cell_uuid", "queued_for_delete"), [
            (instance.uuid, instance.project_id, instance.user_id, instance.cell_uuid,
             instance.queued_for_delete)
            for instance in records]


class Purge(base.Command):
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


class _NameList(base.FormattableColumn):
    """Names; machines read them as a list, or null."""

    def human_readable(self) -> str:
        """Return them in one line."""
        return ", ".join(self._value or ())


COMMANDS: dict[str, type[Any]] = {
    "cells add": Add,
    "cells list": List,
    "cells check": Check,
    "cells set": Set,
    "cells enable": Enable,
    "cells disable": Disable,
    "cells remove": Remove,
    "cells sync": Sync,
    "instances list": Instances,
    "instances purge": Purge,
}
