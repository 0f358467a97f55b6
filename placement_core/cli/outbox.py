"""``placement-core outbox …``: calls to the compute service that are still to be made."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from placement_core.cli import base
from placement_core.reservations.provisioning import outbox

_COLUMNS = ("id", "subject", "call", "arguments", "attempts", "next_at", "problem")

Table = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class List(base.Lister):
    """List the calls that are still to be made, in their order, and what is wrong with them.

    The subject is the reservation that a call is about, or the host.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            return _COLUMNS, [
                (call.id, call.subject, call.name, _Arguments(call.arguments), call.attempts,
                 call.next_at.isoformat(), call.problem)
                for call in outbox.list_(ctx)]


class Retry(base.Command):
    """Have calls that wait to be made again made now; left out: all of them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="ID", type=int, nargs="?",
                            help="only this call, of the list")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; exit code 1: there is no such call that waits."""
        with self.parts(parsed_args) as (_, ctx):
            count = outbox.retry(ctx, parsed_args.id)
        self.say(f"{count} calls are made now")
        return 0 if count or parsed_args.id is None else 1


class Audit(base.Lister):
    """Have removed what the compute service has of reservations that have ended.

    Managers do so now and then. Prints what will be removed, and what is left alone because
    no reservation of that id is known here.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            result = outbox.audit(ctx, parts.compute)
        return ("reservation", "what becomes of it"), [
            *((id_, "removed") for id_ in result.removed),
            *((id_, "unknown") for id_ in result.unknown)]


COMMANDS = {"outbox list": List, "outbox retry": Retry, "outbox audit": Audit}


class _Arguments(base.FormattableColumn):
    """What a call is made with."""

    def human_readable(self) -> str:
        """Return a line for each argument."""
        arguments: Mapping[str, object] = self._value
        return "\n".join(f"{name}: {value}" for name, value in arguments.items())

    def machine_readable(self) -> Mapping[str, object]:
        """Return them as they are."""
        arguments: Mapping[str, object] = self._value
        return arguments
