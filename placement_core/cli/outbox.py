"""``placement-core outbox …``: calls to the compute service that are still to be made."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from placement_core.cli import base
from placement_core.context import Context
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.provisioning import outbox
from placement_core.reservations.provisioning.outbox import OutboxCall

_COLUMNS = ("id", "subject", "subject_name", "lease_id", "call", "arguments", "attempts",
            "next_at", "problem")
#: The subject of a call about a host begins with this; its id follows.
_HOST = "host:"

Table = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class ListComputeCalls(base.Lister):
    """List the calls that are still to be made, in their order, and what is wrong with them.

    The subject is the reservation that a call is about, with the name of its lease, or the host.
    """

    empty = "No calls to the compute service are still to be made."
    beside = ("lease_id",)

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            calls = outbox.list_(ctx)
            names = _find_names(ctx, calls)
        return _COLUMNS, [
            (call.id, call.subject, names.get(call.subject), call.lease_id, call.name,
             _Arguments(call.arguments), call.attempts, call.next_at.isoformat(), call.problem)
            for call in calls]


def _find_names(ctx: Context, calls: Sequence[OutboxCall]) -> dict[str, str | None]:
    """Return {subject: the name of the host, or of the reservation's lease}."""
    lease_ids = {call.subject: call.lease_id for call in calls if call.lease_id is not None}
    leases = lease_queries.get_names(ctx, lease_ids.values())
    hosts = {f"{_HOST}{host.id}": host.name for host in (
        host_queries.page(ctx) if any(call.subject.startswith(_HOST) for call in calls) else ())}
    return {**{subject: leases.get(id_) for subject, id_ in lease_ids.items()}, **hosts}


class RetryComputeCalls(base.Command):
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


class AuditComputeService(base.Lister):
    """Have removed what the compute service has of reservations that have ended.

    Managers do so now and then. Prints what will be removed, and what is left alone because
    no reservation of that id is known here.
    """

    empty = "The compute service has nothing that reservations left there."

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            result = outbox.audit(ctx, parts.compute)
        return ("reservation_id", "outcome"), [
            *((id_, "removed") for id_ in result.removed),
            *((id_, "unknown") for id_ in result.unknown)]


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
