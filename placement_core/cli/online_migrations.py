"""``placement-core db online-data-migrations``: other commands of ``db`` load less."""

from __future__ import annotations

import argparse

from placement_core.cli import base
from placement_core.migrations import online


class RunOnlineMigrations(base.Command):
    """Bring rows that older versions wrote up to date, in batches, while serving.

    Exit code 0: nothing is left that can be done. 1: --max-count was reached;
    run again. 2: some migrations failed and none got any further, or one was stopped
    because it makes no progress.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--max-count", metavar="N",
                            help="stop after this many rows; by default all, in batches of "
                            f"{online.BATCH}")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        max_count = None
        if parsed_args.max_count is not None:
            max_count = _parse_positive(parsed_args.max_count)
            if max_count is None:
                self.say("Must supply a positive value for max_count")
                return online.INVALID
        with self.parts(parsed_args) as (parts, ctx):
            with self.progress() as progress:
                outcome = online.run(
                    ctx, max_count, progress.say, online.list_migrations(parts),
                    progress.report)
        for line in online.render_table(outcome):
            self.say(line)
        return outcome.exit_code


def _parse_positive(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number > 0 else None
