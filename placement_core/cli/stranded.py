"""``placement-core capacity stranded``: which room no usual request can use."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from placement_core.cli import base
from placement_core.placement.room import stranded

#: How many hosts are listed by default.
_HOSTS = 20


class ShowStranded(base.Shower):
    """Show the free room that no usual request can use, by cause, and the hosts that lose most.

    The usual requests are those of [least_stranded] shape. A bar is all that is free of a class:
    # is stranded. The cause is the class that is exhausted on the host; where that is the class
    itself, what is left is less than a request takes. With -f json: the document of
    GET /capacity/v1/room/stranded.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--limit", metavar="N", type=base.parse_count, default=_HOSTS,
                            help=f"how many hosts to list at most; left out: {_HOSTS}")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[object]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            snapshot = parts.index.snapshot(ctx)
        document = dataclasses.asdict(stranded.find(
            snapshot, parts.shapes, most_hosts=parsed_args.limit,
            exclude_reserved=parts.host_access is not None))
        columns = {"resource_classes": _Classes, "hosts": _Hosts, "shapes": _Shapes}
        return tuple(document), [
            columns[name](value) if name in columns else value for name, value in document.items()]


class _Classes(base.FormattableColumn):
    """What is stranded of each class."""

    def human_readable(self) -> str:
        """Return a line for each class, and one for each cause."""
        return "\n".join(line for name, amounts in self._value.items()
                         for line in _describe_class(name, amounts))


class _Hosts(base.FormattableColumn):
    """The hosts that lose most."""

    def human_readable(self) -> str:
        """Return a line for each host."""
        return "\n".join(
            f"{host['name']}: " + ", ".join(
                f"{lost['amount']} {name} ({lost['cause']})"
                for name, lost in host["stranded"].items())
            for host in self._value)


class _Shapes(base.FormattableColumn):
    """How often each usual request fits."""

    def human_readable(self) -> str:
        """Return a line for each of them."""
        return "\n".join(
            f"{'' if shape['exact'] else 'at least '}{shape['fits']} more of " + ",".join(
                f"{name}:{amount}" for name, amount in shape["resources"].items())
            for shape in self._value)


def _describe_class(name: str, amounts: Mapping[str, Any]) -> Iterator[str]:
    bar = base.draw_bar(amounts["stranded"], amounts["free"])
    yield f"{name}  {bar}  {amounts['stranded']} of {amounts['free']} free"
    for cause, amount in amounts["by_cause"].items():
        yield f"  {amount} because of {cause}"
