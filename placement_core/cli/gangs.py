"""``placement-core claims find``: claim several members wherever they fit."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.cli.claims import Allocations
from placement_core.cli.names import find_project_id
from placement_core.http import validation
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import candidates as queries
from placement_core.placement import providers
from placement_core.placement.gangs import errors, levels
from placement_core.placement.gangs.requests import GangRequest
from placement_core.quota.gang_claims import GangOwner

_LEVELS = {
    "within": "all members lie in one domain of this level",
    "pack_by": "they use as few domains of this level as possible",
    "spread_by": "they are divided evenly among the domains of this level",
    "order_by": "neighbours in the answer lie in one domain of this level, as far as possible",
}


class FindClaims(base.Lister):
    """Find room for several equal members, near each other or apart, and claim it.

    A level is host, aggregate:trait=TRAIT, aggregate:name=PREFIX or tree:DEPTH. A level of
    aggregates consists of those that a provider with the trait, or whose name begins with the
    prefix, is a member of; it has to be a sharing provider, or have no inventory.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "query", metavar="QUERY",
            help="what each member needs, as in GET /allocation_candidates?…, such as "
            "'resources=VCPU:4&required=!CUSTOM_SLOW'")
        parser.add_argument("--members", type=base.parse_count, required=True, metavar="N")
        parser.add_argument("--min-members", type=base.parse_count, metavar="N",
                            help="so many are enough; left out: all")
        for name, meaning in _LEVELS.items():
            parser.add_argument(
                f"--{name.replace('_', '-')}", type=_parse_level, metavar="LEVEL", help=meaning)
        parser.add_argument("--max-per-host", type=base.parse_count, metavar="N")
        parser.add_argument("--project", required=True, help="the owner: name or id")
        parser.add_argument("--user", required=True, metavar="ID")
        parser.add_argument("--type", default="INSTANCE", help="of the consumers")
        parser.add_argument("--hold", type=base.parse_count, metavar="SECONDS",
                            help="the time to confirm the claims; left out: they are permanent")
        parser.add_argument("--dry-run", action="store_true",
                            help="claim nothing; only say where the members would be")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        shape = queries.parse(validation.parse_query(
            parsed_args.query.encode(errors="surrogateescape").decode("latin-1")),
            microversions.NEWEST)
        request = GangRequest(
            shape, parsed_args.members, parsed_args.min_members or parsed_args.members,
            max_per_host=parsed_args.max_per_host,
            **{name: getattr(parsed_args, name) for name in _LEVELS})
        with self.parts(parsed_args) as (parts, ctx):
            owner = GangOwner(
                find_project_id(parts, ctx, parsed_args.project), parsed_args.user,
                parsed_args.type, [str(uuid.uuid4()) for _ in range(parsed_args.members)])
            gang = parts.gang_claims.claim(
                ctx, request, owner, hold_seconds=parsed_args.hold, dry_run=parsed_args.dry_run)
            hosts = providers.get_names(
                ctx, {uuid for member in gang.members for uuid in member.allocations})
        return ("consumer_uuid", "host", "domains", "allocations"), [
            (None if parsed_args.dry_run else consumer_uuid, member.host,
             _Domains(member.domains), Allocations((member.allocations, hosts)))
            for consumer_uuid, member in zip(owner.consumer_uuids, gang.members, strict=False)]


class _Domains(base.FormattableColumn):
    """The names of domains, by level."""

    def human_readable(self) -> str:
        """Return a line for each level."""
        return "\n".join(f"{level}: {name}" for level, name in self._value.items())


def _parse_level(text: str) -> levels.Level:
    try:
        return levels.parse(text)
    except errors.InvalidLevel as error:
        raise argparse.ArgumentTypeError(str(error)) from None
