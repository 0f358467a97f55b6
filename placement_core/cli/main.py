"""The entry point of ``placement-core``, and the list of its commands."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from cliff import app, commandmanager

from placement_core import logs
from placement_core.cli import (
    base,
    catalog,
    cells,
    claims,
    compute,
    database,
    events,
    explain,
    hosts,
    leases,
    limits,
    manager,
    outbox,
    plugins,
    quota,
    samples,
    serve,
    status,
)

COMMANDS: dict[str, type[Any]] = {
    "serve": serve.Serve,
    "manager": manager.Manage,
    "db sync": database.Sync,
    "db version": database.SchemaVersion,
    "db release": database.Release,
    "db audit": database.Audit,
    "db online-data-migrations": database.OnlineDataMigrations,
    # As upstream's placement-manage spells it.
    "db online_data_migrations": database.OnlineDataMigrations,
    "status upgrade check": status.UpgradeCheck,
    "explain candidates": explain.Candidates,
    "claims list": claims.List,
    "claims show": claims.Show,
    "claims release": claims.Release,
    "claims sweep": claims.SweepDue,
    "events list": events.List,
    "events retry": events.Retry,
    "leases list": leases.List,
    "leases show": leases.Show,
    "leases delete": leases.Delete,
    "leases whatif": leases.WhatIf,
    "leases next-fit": leases.NextFit,
    "leases timeline": leases.Timeline,
    "limits register": limits.Register,
    "limits list": limits.List,
    "limits show": limits.Show,
    "limits set": limits.Set,
    "limits unset": limits.Unset,
    "limits audit": limits.Audit,
    **catalog.COMMANDS,
    **cells.COMMANDS,
    **compute.COMMANDS,
    **hosts.COMMANDS,
    **outbox.COMMANDS,
    "plugins list": plugins.List,
    "quota show": quota.Show,
    "quota list": quota.List,
    "quota check": quota.Check,
    "quota explain": quota.Explain,
    "config sample": samples.Config,
    "policy sample": samples.Policy,
}


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
        self._stream.write("\n".join(logs.printable(line) for line in text.split("\n")))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class PlacementCore(app.App):
    """The command line; each command is a class of its module."""

    def __init__(self) -> None:
        super().__init__(
            description="The capacity service of a private cloud.",
            version=get_version(),
            command_manager=_make_command_manager(),
            deferred_help=True,
        )
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
        base.add_config_options(parser)
        return parser

    def configure_logging(self) -> None:
        """Send warnings and errors to stderr, as they are."""
        level = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO}.get(
            self.options.verbose_level, logging.DEBUG)
        handler = logging.StreamHandler(self.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logs.protect([handler])
        logging.basicConfig(level=level, handlers=[handler], force=True)


def _make_command_manager() -> commandmanager.CommandManager:
    manager = commandmanager.CommandManager("placement_core.cli", convert_underscores=False)
    for name, command in COMMANDS.items():
        manager.add_command(name, command)
    return manager


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Without a command cliff would open a shell of its own.
    return PlacementCore().run(arguments or ["--help"])
