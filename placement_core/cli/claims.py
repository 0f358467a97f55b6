"""``placement-core claims …``: what is held for a time, and ending what is due."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Mapping

from placement_core.cli import base
from placement_core.quota import claim_expiry, claims
from placement_core.quota.records import Claim, Sweep

#: How many claims are read at a time.
_PAGE = 1000

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_COLUMNS = ("consumer_uuid", "project_id", "user_id", "state", "expires_at", "allocations")


class List(base.Lister):
    """List the claims that are held, and those that expired within the last day.

    Confirmed ones are consumers like any other, and not listed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--project", metavar="ID", help="only those of this project")
        parser.add_argument("--state", choices=["held", "expired"], help="only these")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        listed: list[Claim] = []
        after: int | None = 0
        with self.parts(parsed_args) as (_, ctx):
            while after is not None:
                page, after = claims.list_(
                    ctx, project_id=parsed_args.project, state=parsed_args.state, after=after,
                    most=_PAGE)
                listed += page
        return _make_table(listed)


class Show(base.Lister):
    """Show a claim: what a consumer holds, and until when."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_consumer(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _make_table([claims.get(ctx, parsed_args.consumer, parts.owners)])


class Release(base.Lister):
    """Give back what a claim holds, confirmed or not. Prints what it held."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_consumer(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            claim = claims.get(ctx, parsed_args.consumer, parts.owners)
            claims.release(ctx, parsed_args.consumer)
        return _make_table([claim])


class SweepDue(base.Lister):
    """End the claims whose time is over, and give back what they hold.

    Prints what each held; progress goes to stderr. Any number of sweeps may run at the
    same time, and one can be stopped at any moment. Exit code 1: some could not be
    ended now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--max-count", type=_parse_count, metavar="N",
                            help="end this many at most; left out: all")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            sweep = claim_expiry.sweep(ctx, most=parsed_args.max_count, progress=_report_progress)
        if sweep.failed:
            _report_progress(sweep)
            self.exit_code = 1
        return _make_table(sweep.ended)


def _report_progress(sweep: Sweep) -> None:
    parts = [f"{len(sweep.ended)} claims ended"]
    if sweep.others:
        parts.append(f"{sweep.others} ended or taken over by others")
    if sweep.failed:
        parts.append(f"{len(sweep.failed)} could not be ended now")
    print(", ".join(parts), file=sys.stderr, flush=True)


def _add_consumer(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("consumer", metavar="CONSUMER", help="the uuid of its consumer")
    return parser


def _parse_count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("expected a number from 1 on")
    return count


def _make_table(listed: Iterable[Claim]) -> Rows:
    return _COLUMNS, [
        (claim.consumer_uuid, claim.project_id, claim.user_id, claim.state,
         _format_time(claim.expires_at), _Allocations(claim.allocations))
        for claim in listed]


def _format_time(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC).isoformat()


class _Allocations(base.FormattableColumn):
    """What is held on which provider."""

    def human_readable(self) -> str:
        """Return a line for each provider."""
        held: Mapping[str, Mapping[str, int]] = self._value
        return "\n".join(
            f"{uuid}: " + ", ".join(
                f"{amount} {name}" for name, amount in sorted(resources.items()))
            for uuid, resources in held.items())

    def machine_readable(self) -> Mapping[str, Mapping[str, int]]:
        """Return {provider: {resource class: amount}}."""
        held: Mapping[str, Mapping[str, int]] = self._value
        return {uuid: dict(resources) for uuid, resources in held.items()}
