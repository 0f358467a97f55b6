"""``openstack capacity fits`` and ``stranded``: how much more fits, and what is of no use."""

from __future__ import annotations

import argparse
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osc_lib import exceptions

from capacityclient.osc.base import TABLE, Lister, Rows, draw_bar

#: How many hosts with stranded room are listed by default.
_HOSTS = 20
#: What a user needs who does not see hosts.
_NEEDED_RULE = "the policy rule capacity:room:hosts does not let you see them"


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
    """Show the free room that no usual request of the site can use, by cause, and who loses most.

    A bar is all that is free of a class: # is stranded. The cause is the class that is exhausted;
    where that is the class itself, what is left is less than a request takes.
    """

    empty = "No host has room that no usual request can use."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--hosts", action="store_true",
            help="a row for each class on each of the hosts that lose most, in place of the sums")
        parser.add_argument(
            "--limit", metavar="<number>", type=int, default=_HOSTS,
            help=f"how many hosts to list at most; left out: {_HOSTS}")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each class and cause, or for each class on each host."""
        answer = self.capacity.get("/room/stranded", {"limit": parsed_args.limit})
        if parsed_args.hosts:
            if answer["hosts"] is None:
                raise exceptions.CommandError(f"Hosts are not listed: {_NEEDED_RULE}.")
            return ("name", "uuid", "resource_class", "cause", "stranded"), [
                (host["name"], host["uuid"], name, lost["cause"], lost["amount"])
                for host in answer["hosts"] for name, lost in host["stranded"].items()]
        for shape in answer["shapes"]:
            amounts = ",".join(f"{name}:{amount}" for name, amount in shape["resources"].items())
            self.say(f"{'' if shape['exact'] else 'at least '}{shape['fits']} more of {amounts}")
        for line in _describe_hosts(answer["host_count"], answer["hosts"]):
            self.say(line)
        columns = ("resource_class", "cause", "stranded", "free")
        rows = [(name, cause, amount, amounts["free"])
                for name, amounts in answer["resource_classes"].items()
                for cause, amount in amounts["by_cause"].items()]
        if parsed_args.formatter != TABLE:
            return columns, rows
        return (*columns, "of_free"), [
            (*row, draw_bar(row[2], row[3])) for row in rows]


def _describe_hosts(count: int, hosts: Sequence[Mapping[str, Any]] | None) -> Iterator[str]:
    """Yield a line about all hosts that lose room, and one for each that is listed.

    :param hosts: those that lose most; None: the user may not see them.
    """
    if not count:
        return
    yield f"hosts with room that no usual request can use: {count}; " + (
        f"they are not listed: {_NEEDED_RULE}" if hosts is None else "those that lose most:")
    for host in hosts or ():
        yield f"{host['name']}: " + ", ".join(
            f"{lost['amount']} {name} ({lost['cause']})"
            for name, lost in host["stranded"].items())
