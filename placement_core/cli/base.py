"""What the commands have in common: configuration, progress, one-line errors."""

from __future__ import annotations

import argparse
import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cliff import columns, command, lister, show
from oslo_config import cfg

from placement_core import conf, errors, services as service_parts
from placement_core.cells import engines
from placement_core.context import Context
from placement_core.db.database import Settings
from placement_core.db.masking import mask_text
from placement_core.migrations import sync

if TYPE_CHECKING:
    FormattableColumn = columns.FormattableColumn[Any]
else:
    # A generic class in newer releases of cliff, in the oldest that may be installed not yet.
    FormattableColumn = columns.FormattableColumn


class Failed(Exception):
    """What went wrong, in one line."""


class Configured(command.Command):
    """A command that needs the configuration, and perhaps the database.

    :ivar exit_code: what it ends with, if nothing goes wrong.
    """

    exit_code = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser; the configuration options work after the command too."""
        parser = super().get_parser(prog_name)
        add_config_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; any error travels as one line."""
        try:
            return super().run(parsed_args) or self.exit_code
        except (errors.Error, Failed):
            raise
        except Exception as error:
            # Drivers put several lines into their errors; the first says it.
            # --debug shows the rest.
            first = mask_text(str(error).strip().partition("\n")[0])
            raise Failed(first or type(error).__name__) from error

    def conf(self, parsed_args: argparse.Namespace) -> cfg.ConfigOpts:
        """Read the configuration that the command line names."""
        files, folders = get_config_sources(self.app_args, parsed_args)
        return conf.load(config_files=files, config_dirs=folders)

    def database_settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Return how the configured database is reached."""
        return service_parts.database_settings(self.conf(parsed_args))

    def services(self, parsed_args: argparse.Namespace) -> service_parts.Services:
        """Return the service's parts; the caller disposes of the database."""
        return service_parts.build(self.conf(parsed_args))

    @contextlib.contextmanager
    def parts(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[service_parts.Services, Context]]:
        """Open the service's parts, and a context on its database, whose schema is the newest."""
        parts = self.services(parsed_args)
        try:
            sync.require_newest(parts.database)
            yield parts, parts.context()
        finally:
            parts.database.dispose()
            engines.SHARED.dispose()

    def say(self, line: str) -> None:
        """Print a line of progress at once."""
        print(line, file=self.app.stdout, flush=True)


class Command(Configured):
    """A command that prints what it does."""


class Lister(Configured, lister.Lister):
    """A command that prints a table, or the same as ``-f json``, ``csv``, ``yaml``."""


class Shower(Configured, show.ShowOne):
    """A command that prints the fields of one thing, or the same as ``-f json``, ``yaml``."""


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--config-file`` and ``--config-dir``, both repeatable."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        "--config-file", action="append", default=[], metavar="PATH",
        help="read options from this file instead of /etc/placement/placement.conf; repeatable")
    group.add_argument(
        "--config-dir", action="append", default=[], metavar="PATH",
        help="read the *.conf files of this directory too; repeatable")


def get_config_sources(*namespaces: Any) -> tuple[list[str] | None, list[str] | None]:
    """Return the files and directories that parsed command lines name; None: none."""
    files = [path for namespace in namespaces for path in namespace.config_file]
    folders = [path for namespace in namespaces for path in namespace.config_dir]
    return files or None, folders or None


def freeze_loaded() -> None:
    """Let the garbage collector pass over what a process has when it begins its work.

    All of that stays. Walking through it again and again took half of the time of a large
    answer, and a third of that of events.
    """
    gc.collect()
    gc.freeze()
