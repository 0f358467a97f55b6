"""``placement-core claims …``: what is held for a time, and ending what is due."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence

from placement_core import services as service_parts
from placement_core.cli import base
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id
from placement_core.context import Context
from placement_core.placement import providers
from placement_core.quota import claim_expiry, claims
from placement_core.quota.records import Claim, Sweep

#: How many claims are read at a time.
_PAGE = 1000

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_COLUMNS = ("consumer_uuid", "project_id", "project_name", "user_id", "state", "expires_at",
            "allocations")


class _Claims(base.Lister):
    """A command that prints claims."""

    beside = ("project_id",)

    def make_table(
        self, parts: service_parts.Services, ctx: Context, listed: Sequence[Claim]
    ) -> Rows:
        """Return the columns, and a row for each claim."""
        names = CatalogNames(parts, ctx, self.note)
        hosts = providers.get_names(ctx, {uuid for claim in listed for uuid in claim.allocations})
        return _COLUMNS, [
            (claim.consumer_uuid, claim.project_id, names.node(claim.project_id), claim.user_id,
             claim.state, _format_time(claim.expires_at),
             Allocations((claim.allocations, hosts)))
            for claim in listed]


class ListClaims(_Claims):
    """List the claims that are held, and those that expired within the last day.

    Confirmed ones are consumers like any other, and not listed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument("--state", choices=["held", "expired"], help="only these")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        self.empty = "No claims are held, and none expired within the last day" + (
            base.describe_filters(project=parsed_args.project, state=parsed_args.state)) + "."
        listed: list[Claim] = []
        after: int | None = 0
        with self.parts(parsed_args) as (parts, ctx):
            project = parsed_args.project
            project_id = None if project is None else find_project_id(parts, ctx, project)
            while after is not None:
                page, after = claims.list_(
                    ctx, project_id=project_id, state=parsed_args.state, after=after, most=_PAGE)
                listed += page
            return self.make_table(parts, ctx, listed)


class ShowClaim(_Claims):
    """Show a claim: what a consumer holds, and until when."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_consumer(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return self.make_table(
                parts, ctx, [claims.get(ctx, parsed_args.consumer, parts.owners)])


class ReleaseClaim(_Claims):
    """Give back what a claim holds, confirmed or not. Prints what it held."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_consumer(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            claim = claims.get(ctx, parsed_args.consumer, parts.owners)
            claims.release(ctx, parsed_args.consumer)
            return self.make_table(parts, ctx, [claim])


class SweepClaims(_Claims):
    """End the claims whose time is over, and give back what they hold.

    Prints what each held; progress goes to stderr. Any number of sweeps may run at the
    same time, and one can be stopped at any moment. Exit code 1: some could not be
    ended now.
    """

    empty = "No claim's time is over."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--max-count", type=base.parse_count, metavar="N",
                            help="end this many at most; left out: all")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            sweep = claim_expiry.sweep(ctx, most=parsed_args.max_count, progress=_report_progress)
            if sweep.failed:
                _report_progress(sweep)
                self.empty = "No claim was ended."
                self.exit_code = 1
            return self.make_table(parts, ctx, sweep.ended)


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


def _format_time(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC).isoformat()


class Allocations(base.FormattableColumn):
    """What is held on which provider, and the names of providers."""

    def human_readable(self) -> str:
        """Return a line for each provider."""
        held: Mapping[str, Mapping[str, int]]
        held, names = self._value
        return "\n".join(
            f"{names.get(uuid, uuid)}: " + ", ".join(
                f"{amount} {name}" for name, amount in sorted(resources.items()))
            for uuid, resources in held.items())

    def machine_readable(self) -> Mapping[str, Mapping[str, int]]:
        """Return {provider: {resource class: amount}}."""
        held: Mapping[str, Mapping[str, int]] = self._value[0]
        return {uuid: dict(resources) for uuid, resources in held.items()}
