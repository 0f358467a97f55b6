"""``placement-core db check-engine``: whether a database engine does what the service needs."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable

from oslo_config import cfg

from placement_core import conf
from placement_core.cli import base
from placement_core.cli.config_options import get_config_sources
from placement_core.db.database import Settings
from placement_core.engine_checks import runner
from placement_core.engine_checks.checks import CHECKS
from placement_core.engine_checks.results import Result, Status

_EXIT_CODES = {Status.OK: 0, Status.WARNING: 1, Status.FAILED: 2}
_VERDICTS = {
    Status.OK: "supported", Status.WARNING: "supported, with the limitations above",
    Status.FAILED: "not supported",
}
#: How wide the names of results are printed, and those of checks.
_WIDTHS = (7, 23)


class CheckEngine(base.Checker):
    """Check whether a database engine does what this service needs to be correct.

    Creates tables whose names begin with placement_core_engine_check, works on them with
    several connections at once, and drops them. Tables of the service are not touched; with
    SQLite, it is all done in a file beside the database. A line for each check: ok, warning
    (the engine works, with a limitation) or failed (expected and seen). Takes some ten seconds.

    Exit code 0: the engine is supported. 1: with limitations. 2: it is not.
    255: the checks did not run.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "url", metavar="URL", nargs="?",
            help="of a database, which may be empty; by default [placement_database] connection")
        return parser

    def load_options(self, parsed_args: argparse.Namespace) -> cfg.ConfigOpts:
        """Read the configuration; the URL of the command line needs none."""
        files, folders = get_config_sources(self.app_args, parsed_args)
        return conf.load(config_files=files, config_dirs=folders, embedded=True,
                         connection=parsed_args.url)

    def database_settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Return how the database is reached that is to be checked."""
        settings = super().database_settings(parsed_args)
        if parsed_args.url is None:
            return settings
        return dataclasses.replace(settings, connection_parameters="", named="URL")

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the checks; as a table, each line is printed as soon as it is known."""
        printed = parsed_args.formatter == base.TABLE
        engine, results = runner.run(
            self.database_settings(parsed_args), CHECKS,
            self._say_result if printed else runner.no_report)
        worst = max((result.status for result in results), key=_EXIT_CODES.__getitem__)
        self.exit_code = _EXIT_CODES[worst]
        if printed:
            self.say(f"{len(results)} checks. {engine} is {_VERDICTS[worst]}.")
            return (), []
        return ("check", "result", "rule", "details"), [
            (result.name, result.status.value, result.rule, result.details)
            for result in results]

    def _say_result(self, result: Result) -> None:
        details = f": {result.details}" if result.details else ""
        self.say(f"{result.status.value:{_WIDTHS[0]}} {result.name:{_WIDTHS[1]}} "
                 f"{result.rule}{details}")
