"""``placement-core capacity fits``: how many more of a request fit."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.http import validation
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import candidates as queries
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.room import fits

#: How many hosts are listed by default.
_HOSTS = 20


class ShowFits(base.Shower):
    """Say how many more of a request fit, on which hosts, and what stops the next one.

    With -f json: the document of GET /capacity/v1/room/fits.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "query", metavar="QUERY", nargs="?", default="",
            help="what follows the ? in GET /allocation_candidates?…, at the newest microversion, "
            "such as 'resources=VCPU:4&required=!CUSTOM_SLOW'; options override or add to it")
        parser.add_argument("--resources", metavar="CLASS=AMOUNT,…",
                            help="what one takes, such as VCPU=2,MEMORY_MB=4096")
        parser.add_argument("--required", metavar="TRAITS", action="append",
                            help="traits, such as HW_CPU_X86_AVX2,!CUSTOM_SLOW; repeatable")
        parser.add_argument("--member-of", metavar="UUID", action="append",
                            help="an aggregate; repeatable")
        parser.add_argument("--in-tree", metavar="UUID",
                            help="a provider of the only tree to look at")
        parser.add_argument("--limit", metavar="N", type=base.parse_count, default=_HOSTS,
                            help=f"how many hosts to list at most; left out: {_HOSTS}")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[object]]:
        """Run the command."""
        request = _parse(parsed_args)
        with self.parts(parsed_args) as (parts, ctx):
            snapshot = parts.index.snapshot(ctx)
        document = dataclasses.asdict(fits.find(
            snapshot, request, most_hosts=parsed_args.limit,
            exclude_reserved=parts.host_access is not None))
        columns = {"hosts": _Hosts, "stopped_by": _StoppedBy}
        return tuple(document), [
            columns[name](value) if name in columns else value for name, value in document.items()]


class _Hosts(base.FormattableColumn):
    """Hosts; the bars compare them with the first."""

    def human_readable(self) -> str:
        """Return a line for each host."""
        hosts = self._value
        width = max((len(host["name"]) for host in hosts), default=0)
        digits = max((len(str(host["fits"])) for host in hosts), default=0)
        return "\n".join(
            f"{host['name']:{width}}  {host['fits']:{digits}}  "
            f"{base.draw_bar(host['fits'], hosts[0]['fits'])}" for host in hosts)


class _StoppedBy(base.FormattableColumn):
    """What stops the next one; people read the sentence."""

    def human_readable(self) -> str:
        """Return a line for each clause of it."""
        return "\n".join(self._value["reason"].split("; "))


def _parse(parsed_args: argparse.Namespace) -> CandidatesRequest:
    """Return what is asked for: the query, and what options add to it."""
    # As a server hands it over: its bytes, one character for each.
    query = validation.parse_query(
        parsed_args.query.encode(errors="surrogateescape").decode("latin-1"))
    if parsed_args.resources is not None:
        query["resources"] = [parsed_args.resources.replace("=", ":")]
    if parsed_args.in_tree is not None:
        query["in_tree"] = [parsed_args.in_tree]
    for name in ("required", "member_of"):
        values = getattr(parsed_args, name)
        if values:
            query[name] = [*query.get(name, ()), *values]
    return queries.parse(query, microversions.NEWEST)
