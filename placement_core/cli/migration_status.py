"""``placement-core migrate status``: how far it is, and what the next step is."""

from __future__ import annotations

import argparse
import datetime
import pathlib
from collections.abc import Sequence

from placement_core import errors
from placement_core.cli import base
from placement_core.db import failures
from placement_core.shadow import state
from placement_core.shadow.modes import Mode
from placement_core.takeover import comparison_results
from placement_core.takeover.comparison_results import SourceStatus

#: Whose records the proxy compares itself.
_COMPARED_BY_PROXY = "placement"


class ShowMigration(base.Command):
    """Say what "migrate diff" found last, what a shadow does, and what the next step is.

    A line for each source that was copied or compared, and one with the next step. Without
    --state, it is that before a shadow begins. A comparison is stale after a day. What cannot be
    copied is counted; "migrate check" names it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_state(parser, required=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        now = datetime.datetime.now(datetime.UTC)
        if parsed_args.state is None:
            sources: Sequence[SourceStatus] = _read_sources(self, parsed_args)
            last_line = f"Next: {comparison_results.find_next_step(sources, now)}"
        else:
            mode = state.read_mode(parsed_args.state)
            sources, problem = try_to_read_sources(self, parsed_args)
            if problem:
                self.note(problem)
            step = comparison_results.find_open_step(
                _list_uncompared(sources), now) if mode is Mode.SHADOW else ""
            last_line = mode.describe(f"{step}, then " if step else "")
        for source in sources:
            self.say(source.describe(now))
        self.say(last_line)
        return 0


def try_to_read_sources(
    command: base.Configured, parsed_args: argparse.Namespace
) -> tuple[Sequence[SourceStatus], str]:
    """Return what was copied and compared, or why it is not known where the command runs."""
    try:
        return _read_sources(command, parsed_args), ""
    except Exception as error:
        if not (isinstance(error, errors.Error) or failures.is_of_server(error)):
            raise
        return (), ("What \"migrate diff\" found last is not known here: "
                    f"{command.describe_error(error, parsed_args)}")


def _read_sources(
    command: base.Configured, parsed_args: argparse.Namespace
) -> Sequence[SourceStatus]:
    with command.parts(parsed_args) as (_, ctx):
        return comparison_results.list_sources(ctx)


def describe_doubts(sources: Sequence[SourceStatus]) -> str:
    """Return what a switch does not compare itself and is not certain to be equal; "": nothing."""
    return comparison_results.describe_doubts(
        _list_uncompared(sources), datetime.datetime.now(datetime.UTC))


def _list_uncompared(sources: Sequence[SourceStatus]) -> list[SourceStatus]:
    """Return those that a switch does not compare itself."""
    return [source for source in sources if source.service != _COMPARED_BY_PROXY]


def add_state(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the option that names the state of a proxy."""
    parser.add_argument(
        "--state", metavar="PATH", required=required, type=pathlib.Path,
        help="the file in which the proxy keeps what survives its restart")
