"""``openstack capacity fits`` and ``stranded``: how much more fits, and what is of no use."""

from __future__ import annotations

import argparse
import urllib.parse
from typing import Any

from capacityclient.osc.base import TABLE, Lister, Rows, draw_bar


class ShowFits(Lister):
    """Show how many more of a request fit on which hosts, and say what stops the next one.

    Exit code 1: not one fits.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "query", metavar="<query>",
            help="what follows the ? in GET /allocation_candidates?..., such as "
            "'resources=VCPU:4&required=HW_CPU_X86_AVX2'; limit is the number of hosts to list")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each host, those with room for the most first."""
        query = urllib.parse.quote(parsed_args.query, safe="=&,:!%")
        answer = self.capacity.get(f"/room/fits?{query}")
        self.exit_code = int(not answer["fits"])
        self.empty = "It fits nowhere."
        least = "" if answer["exact"] else "at least "
        self.say(f"{least}{answer['fits']} more fit, on {answer['host_count']} hosts; then: "
                 f"{answer['stopped_by']['reason']}")
        hosts: list[dict[str, Any]] = answer["hosts"]
        columns = ("name", "uuid", "fits")
        rows = [tuple(host[name] for name in columns) for host in hosts]
        if parsed_args.formatter != TABLE:
            return columns, rows
        return (*columns, "of_the_first"), [
            (*row, draw_bar(host["fits"], hosts[0]["fits"]))
            for row, host in zip(rows, hosts, strict=True)]


class ShowStranded(Lister):
    """Show the free room that no usual request of the site can use, by cause.

    The cause is the class that is exhausted; where that is the class itself, what is left is less
    than a request takes.
    """

    empty = "No host has room that no usual request can use."

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each class and cause."""
        answer = self.capacity.get("/room/stranded", {"limit": 1})
        for shape in answer["shapes"]:
            amounts = ",".join(f"{name}:{amount}" for name, amount in shape["resources"].items())
            self.say(f"{'' if shape['exact'] else 'at least '}{shape['fits']} more of {amounts}")
        columns = ("resource_class", "cause", "stranded", "free")
        rows = [(name, cause, amount, amounts["free"])
                for name, amounts in answer["resource_classes"].items()
                for cause, amount in amounts["by_cause"].items()]
        if parsed_args.formatter != TABLE:
            return columns, rows
        return (*columns, "of_free"), [
            (*row, draw_bar(row[2], row[3])) for row in rows]
