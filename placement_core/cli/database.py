"""``placement-core db …``: the schema, and what is stored in it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Sequence

from placement_core.cli import base
from placement_core.migrations import revisions, sync
from placement_core.placement.usage import audit

#: The format that prints values alone.
_VALUE = "value"


class SyncDatabase(base.Command):
    """Make the database's schema, upgrade it, or take over that of upstream Placement.

    Sets sequences that are behind their tables (PostgreSQL). Safe to repeat. The services of the
    previous release may serve meanwhile; stop upstream Placement before it is taken over.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--contract", action="store_true",
            help="take away what older versions left open, too: columns that they left empty "
            "become NOT NULL. Refused while online data migrations have something to do.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.progress() as progress:
            sync.sync(self.database_settings(parsed_args), progress.say, progress.report,
                      contracted=parsed_args.contract)
        return 0


class ShowDatabaseVersion(base.Shower):
    """Print the revision of the database's schema (nothing: it has none).

    Other formats than value have the revision that this version of the code works on, too.
    """

    @property
    def formatter_default(self) -> str:
        """Print the revision alone, unless asked for more."""
        return _VALUE

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Run the command."""
        revision = sync.version(self.database_settings(parsed_args))
        if parsed_args.formatter == _VALUE:
            return ("revision",), (revision,)
        return ("revision", "newest"), (revision, revisions.head())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Sequence[object],
    ) -> int:
        """Print the revision, or nothing where there is none to be read alone."""
        if parsed_args.formatter == _VALUE and data == (None,):
            return 0
        return super().produce_output(parsed_args, column_names, data)


class ReleaseDatabase(base.Command):
    """Give the database back to upstream Placement, with all that was written there.

    Removes our columns and tables, and with them what upstream has no place for: the
    catalog and limits. Stop the services first. "db sync" takes the database over again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--yes", action="store_true",
                            help="do it; without this the command only says what it would do")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        settings = self.database_settings(parsed_args)
        if not parsed_args.yes:
            raise base.Failed(
                "this would remove the columns and tables that upstream Placement does not have; "
                "stop every placement-core service, then repeat with --yes")
        sync.release(settings, self.say)
        return 0


class AuditDatabase(base.Lister):
    """Compare what is used with the allocations, everywhere it is kept.

    Exit code 1: something differs (and was not repaired).
    """

    empty = "Nothing differs: what is used equals the allocations."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--repair", action="store_true", help="correct what differs")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx), self.progress() as progress:
            findings = audit.audit(ctx, repair=parsed_args.repair, report=progress.report)
        self.exit_code = 1 if any(not finding.repaired for finding in findings) else 0
        columns = tuple(field.name for field in dataclasses.fields(audit.Finding))
        return columns, [dataclasses.astuple(finding) for finding in findings]
