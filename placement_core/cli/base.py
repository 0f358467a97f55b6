"""What the commands have in common: configuration, progress, one-line errors."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from cliff import columns, command, lister, show
from cliff.formatters import base as formatters
from oslo_config import cfg

from placement_core import conf, configured_database, errors
from placement_core.cells import engines
from placement_core.cli.config_options import add_config_options, get_config_sources
from placement_core.cli.progress import Bars, Lines
from placement_core.conf import settings
from placement_core.context import Context
from placement_core.db import failures, sqlite_files
from placement_core.db.database import Settings
from placement_core.masking import mask_text, mask_url
from placement_core.migrations import compatibility

if TYPE_CHECKING:
    from placement_core.services import Services

    FormattableColumn = columns.FormattableColumn[Any]
else:
    # A generic class in newer releases of cliff, in the oldest that may be installed not yet.
    FormattableColumn = columns.FormattableColumn

LOG = logging.getLogger(__name__)

T = TypeVar("T")


#: The format for people, and those whose cells can hold nothing but texts.
TABLE = "table"
_FLAT = ("csv", "value", "shell")

#: How many records of a long list are read at a time.
_PAGE = 1000
#: The exit code when checks did not run, as in every OpenStack service.
_CHECKS_FAILED = 255
#: How many characters a bar has.
_BAR = 20


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
        except (Failed, BrokenPipeError):
            # Whoever stops reading makes no error: cliff ends the command in silence.
            raise
        except Exception as error:
            if isinstance(error, errors.Error) and not failures.is_of_server(error):
                raise
            raise Failed(self.describe_error(error, parsed_args)) from error

    def describe_error(self, error: Exception, parsed_args: argparse.Namespace) -> str:
        """Return what went wrong in one line, without secrets."""
        if failures.is_of_server(error):
            return self._describe_trouble(error, parsed_args)
        # Drivers put several lines into their errors; the first says it. --debug shows the rest.
        return mask_text(str(error).strip().partition("\n")[0]) or type(error).__name__

    def _describe_trouble(self, error: Exception, parsed_args: argparse.Namespace) -> str:
        """Say which option names the database that is in trouble, where it is, and why."""
        settings = self.database_settings(parsed_args)
        reasons = [failures.describe_error(error), sqlite_files.find_obstacle(settings.connection)]
        return mask_text(f"{settings.named} = {mask_url(settings.connection)}: "
                         f"{'; '.join(reason for reason in reasons if reason)}")

    def conf(self, parsed_args: argparse.Namespace) -> cfg.ConfigOpts:
        """Read the configuration that the command line names; warn of what no option reads."""
        options = self.load_options(parsed_args)
        for line in settings.find_unknown(options):
            LOG.warning("%s", line)
        if conf.uses_embedded(options):
            LOG.warning("no placement.conf: the database is %s",
                        options.placement_database.connection)
        return options

    def load_options(self, parsed_args: argparse.Namespace) -> cfg.ConfigOpts:
        """Read the configuration that the command line names."""
        files, folders = get_config_sources(self.app_args, parsed_args)
        return conf.load(config_files=files, config_dirs=folders, embedded=True)

    def database_settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Return how the configured database is reached."""
        return configured_database.make_settings(self.conf(parsed_args))

    def services(self, parsed_args: argparse.Namespace) -> Services:
        """Return the service's parts; the caller disposes of the database."""
        # Most of the service, which not every command needs.
        from placement_core import services

        return services.build(self.conf(parsed_args))

    @contextlib.contextmanager
    def parts(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[Services, Context]]:
        """Open the service's parts, and a context on its database, whose schema is the newest."""
        parts = self.services(parsed_args)
        try:
            compatibility.require_newest(parts.database)
            yield parts, parts.context(operation=f"placement-core {self.cmd_name}")
        finally:
            parts.database.dispose()
            engines.SHARED.dispose()

    def say(self, line: str) -> None:
        """Print a line of progress at once."""
        print(line, file=self.app.stdout, flush=True)

    def note(self, line: str) -> None:
        """Print a line beside the answer: on stderr."""
        print(line, file=self.app.stderr, flush=True)

    def progress(self) -> Bars | Lines:
        """Return what shows how far the command is, while it is entered."""
        if self.app.stderr.isatty():
            return Bars(self.app.stderr, self.say)
        return Lines(self.note, self.say)


class Command(Configured):
    """A command that prints what it does."""


class Lister(Configured, lister.Lister):
    """A command that prints a table, or the same as ``-f json``, ``csv``, ``yaml``.

    Columns have the same names in every format: what a table calls a column is what ``-c``,
    ``--sort-column`` and the keys of ``-f json`` call it.

    :ivar empty: what people read where there are no rows.
    :ivar beside: columns that tables have only where ``-c`` asks for them: ids of what another
        column names, and the like.
    """

    empty = "There is nothing to list."
    beside: Collection[str] = ()

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        """Print the rows, or a sentence where a table would have none."""
        rows = list(data)
        if parsed_args.formatter == TABLE and not (rows or parsed_args.print_empty):
            print(self.empty, file=self.app.stdout)
            return 0
        if parsed_args.formatter == TABLE and not parsed_args.columns:
            parsed_args.columns = [name for name in column_names if name not in self.beside]
        # Sorting needs to see where there is nothing, so cells are made after it.
        self.formatter = _CellFormatter(self.formatter)
        return super().produce_output(parsed_args, column_names, rows)


class Checker(Lister):
    """A command that checks something: 0, 1 and 2 are the exit codes of its results.

    For people it may print each result itself, and return no columns then.
    """

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; if the checks themselves fail, its exit code tells that apart."""
        try:
            return super().run(parsed_args)
        except BrokenPipeError:
            raise
        except Exception as error:
            if self.app.options.debug:
                raise
            self.note(str(error).strip().partition("\n")[0])
            return _CHECKS_FAILED

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        """Print the results, unless the command did."""
        return super().produce_output(parsed_args, column_names, data) if column_names else 0


class Shower(Configured, show.ShowOne):
    """A command that prints the fields of one thing, or the same as ``-f json``, ``yaml``."""

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Sequence[object],
    ) -> int:
        """Print the fields."""
        return super().produce_output(
            parsed_args, column_names, _make_cells(parsed_args.formatter, data))


class NameOrId(FormattableColumn):
    """The name of something, and its id: ``(name, id)``.

    People read the name, or the id where the name is not known. Machines read the name, or
    null; the id is in a column of its own.
    """

    def human_readable(self) -> str:
        """Return what says most."""
        name, id_ = self._value
        return name or id_ or ""

    def machine_readable(self) -> str | None:
        """Return the name."""
        name: str | None = self._value[0]
        return name


class Words(FormattableColumn):
    """Words; machines read them as a list, or null."""

    def human_readable(self) -> str:
        """Return them in one line."""
        return ", ".join(self._value or ())

    def machine_readable(self) -> list[str] | None:
        """Return them."""
        # Plain ones: YAML takes no others, and names of tables are not.
        return None if self._value is None else [str(word) for word in self._value]


def read_pages(
    read: Callable[[str | None, int], Sequence[T]], get_marker: Callable[[T], str],
    marker: str | None, limit: int | None,
) -> list[T]:
    """Return what comes after a marker, read page by page.

    :param read: returns so many at most of what comes after a marker.
    :param limit: the largest number to return; None: all.
    """
    found: list[T] = []
    while True:
        size = _PAGE if limit is None else min(_PAGE, limit - len(found))
        page = read(marker, size)
        found += page
        if len(page) < size or len(found) == limit:
            return found
        marker = get_marker(page[-1])


def parse_count(text: str) -> int:
    """Return the number of an argument.

    :raises argparse.ArgumentTypeError: it is below 1.
    """
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("expected a number from 1 on")
    return count


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Let a command list no more than some rows."""
    parser.add_argument("--limit", metavar="N", type=parse_count, default=1000,
                        help="how many at most; 1000 by default")


def draw_bar(part: int, whole: int) -> str:
    """Draw a part of something; full if it is all of it, empty if it is nothing, and only then."""
    filled = min(-(-_BAR * part // max(whole, 1)), _BAR - (part < whole))
    return "#" * filled + "." * (_BAR - filled)


def describe_filters(**filters: object) -> str:
    """Return which filters an empty answer is due to; it can follow a noun."""
    parts = [f"{name.replace('_', ' ')} {value}" for name, value in filters.items()
             if value is not None]
    return f" with {', '.join(parts)}" if parts else ""


def _make_cells(formatter: str, row: Sequence[object]) -> list[object]:
    """Return a row for a formatter.

    Formats of flat texts have what is nested as JSON; tables have blanks for nothing.
    """
    if formatter in _FLAT:
        return [_flatten(cell) for cell in row]
    return ["" if cell is None and formatter == TABLE else cell for cell in row]


class _CellFormatter(formatters.ListFormatter):
    """A formatter whose rows become cells before it prints them."""

    def __init__(self, formatter: formatters.ListFormatter) -> None:
        self._formatter = formatter

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add the formatter's options."""
        self._formatter.add_argument_group(parser)

    def emit_list(
        self, column_names: Sequence[str], data: Iterable[Sequence[object]], stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print the rows."""
        rows = [_make_cells(parsed_args.formatter, row) for row in data]
        self._formatter.emit_list(column_names, rows, stdout, parsed_args)


def _flatten(cell: object) -> object:
    value = cell.machine_readable() if isinstance(cell, columns.FormattableColumn) else cell
    return json.dumps(value) if isinstance(value, list | dict) else value
