"""The entry point of ``placement-core``."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from cliff import app, commandmanager, help as cliff_help

from placement_core import safe_logging
from placement_core.cli import commands, config_options
from placement_core.collector import no_garbage_collection

#: The logger of errors that oslo.db does not know.
_DATABASE_ERRORS = "oslo_db.sqlalchemy.exc_filters"
#: The exit code when nobody reads what is printed, as that of a process that SIGPIPE ends.
_READER_GONE = 141


def get_version() -> str:
    """Return the installed version of this distribution."""
    try:
        return importlib.metadata.version("placement-core")
    except importlib.metadata.PackageNotFoundError:
        return "0 (not installed)"


class _EscapingStream:
    """A stream to a terminal, which shows control characters of clients as escapes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write lines of text."""
        self._stream.write(
            "\n".join(safe_logging.printable(line) for line in text.split("\n")))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Help(cliff_help.HelpCommand):
    """Print the help of a command, or the list of all."""

    app: PlacementCore

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        if parsed_args.cmd:
            return super().take_action(parsed_args)
        self.app.print_help()
        return 0


class _CommandManager(commandmanager.CommandManager):
    """Imports a command when it is called: most of the service hangs at some of them."""

    def find_command(self, argv: list[str]) -> tuple[Any, str, list[str]]:
        """Return the class of a command, its name and its arguments."""
        with no_garbage_collection():
            return super().find_command(argv)


class PlacementCore(app.App):
    """The command line; each command is a class of its module."""

    def __init__(self) -> None:
        super().__init__(
            description="The capacity service of a private cloud.",
            version=get_version(),
            command_manager=_make_command_manager(),
            deferred_help=True,
        )
        self.command_manager.add_command("help", _Help)
        # cliff's knows bash only, and needs a package beside it; "completion" is ours.
        del self.command_manager.commands["complete"]
        if self.stdout.isatty():
            self.stdout = _EscapingStream(self.stdout)

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Return the parser of the options before the command."""
        parser = super().build_option_parser(description, version, argparse_kwargs)
        config_options.add_config_options(parser)
        return parser

    def configure_logging(self) -> None:
        """Send warnings and errors to stderr, as they are."""
        level = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO}.get(
            self.options.verbose_level, logging.DEBUG)
        handler = logging.StreamHandler(self.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        safe_logging.protect([handler])
        logging.basicConfig(level=level, handlers=[handler], force=True)
        if level != logging.DEBUG:
            # It logs tracebacks of what the command is about to say in one line.
            logging.getLogger(_DATABASE_ERRORS).setLevel(logging.CRITICAL)
        if not self.options.debug:
            # It logs what it raises, and what it raises becomes one line of ours.
            logging.getLogger("stevedore").setLevel(logging.CRITICAL)

    def print_help_if_requested(self) -> None:
        """Print the help and exit, if ``--help`` stands alone."""
        if self.options.deferred_help:
            self.print_help()
            raise cliff_help.HelpExit

    def print_help(self) -> None:
        """Print the options and the commands. Unlike cliff's own help it imports no command."""
        self.parser.print_help(self.stdout)
        width = max(map(len, commands.COMMANDS))
        self.stdout.write("\ncommands:\n")
        for name in sorted(commands.COMMANDS):
            self.stdout.write(f"  {name:<{width}}  {commands.read_summary(name)}\n")


def _make_command_manager() -> commandmanager.CommandManager:
    # Without a namespace: cliff would look for entry points of all that is installed.
    manager = _CommandManager(convert_underscores=False)
    for name in commands.COMMANDS:
        manager.commands[name] = commands.make_entry_point(name)
    return manager


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        # Without a command cliff would open a shell of its own.
        return PlacementCore().run(arguments or ["--help"])
    finally:
        # A process may be started without one of them; cliff's pager closes one nobody reads.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            if not stream.closed:
                _flush(stream)


def _flush(stream: TextIO) -> None:
    """Write what a stream has buffered; exit as cliff does if nobody reads it.

    The interpreter would print an error instead, with another exit code.
    """
    try:
        stream.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as nothing:
            # The interpreter flushes again.
            os.dup2(nothing.fileno(), stream.fileno())
        sys.exit(_READER_GONE)
    except OSError:
        pass  # A full disk, say: the interpreter flushes again, and reports it.
