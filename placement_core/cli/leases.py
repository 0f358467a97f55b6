"""``placement-core leases …``: who has reserved what, and what could still be."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core.cli import base, moments
from placement_core.cli.names import (
    CatalogNames,
    add_project_filter,
    find_project_id,
    require_one,
)
from placement_core.cli.reservation_arguments import add_reservations, get_reservations
from placement_core.context import Context
from placement_core.plugin_api.reservations import DoesNotFit, Window
from placement_core.reservations.errors import LeaseNotFound, NoRoom
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import HostAllocation, Lease, NewLease
from placement_core.services import Services

#: How many leases are read at a time.
_PAGE = 1000

_LONGEST_NAME = 80

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]
Fields = tuple[tuple[str, ...], tuple[object, ...]]


class ListLeases(base.Lister):
    """List leases, those that have ended included until they are deleted."""

    beside = ("project_id",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        parser.add_argument(
            "--status", choices=["PENDING", "ACTIVE", "TERMINATED", "ERROR"], help="only these")
        parser.add_argument(
            "--host", metavar="HOST",
            help="only those that hold something of this host: its name or its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        self.empty = "There are no leases" + base.describe_filters(
            project=parsed_args.project, status=parsed_args.status, host=parsed_args.host) + "."
        leases: list[Lease] = []
        with self.parts(parsed_args) as (parts, ctx):
            project, host = parsed_args.project, parsed_args.host
            project_id = None if project is None else find_project_id(parts, ctx, project)
            host_id = None if host is None else host_queries.find(ctx, host).id
            while True:
                page = lease_queries.page(
                    ctx, project_id=project_id, status=parsed_args.status, host_id=host_id,
                    after=leases[-1].id if leases else None, limit=_PAGE)
                leases += page
                if len(page) < _PAGE:
                    break
            names = CatalogNames(parts, ctx, self.note)
            return ("id", "name", "project_id", "project_name", "status", "start_at", "end_at",
                    "reservations"), [
                (lease.id, lease.name, lease.project_id, names.node(lease.project_id),
                 lease.status, _format_time(lease.start_at), _format_time(lease.end_at),
                 _Reservations(lease)) for lease in leases]


class _LeaseShower(base.Shower):
    """A command that shows a lease."""

    def make_fields(self, parts: Services, ctx: Context, lease: Lease) -> Fields:
        """Return what there is to know of a lease."""
        names = CatalogNames(parts, ctx, self.note)
        _, allocations = host_queries.list_allocations(ctx, lease_id=lease.id)
        return (
            "id", "name", "project_id", "project_name", "user_id", "status", "degraded",
            "start_at", "end_at", "reservations", "hosts", "events",
        ), (
            lease.id, lease.name, lease.project_id, names.node(lease.project_id), lease.user_id,
            lease.status, lease.degraded, _format_time(lease.start_at),
            _format_time(lease.end_at), _Reservations(lease), _LeasedHosts(allocations),
            _Events(lease))


class ShowLease(_LeaseShower):
    """Show a lease: its reservations, the hosts that they hold, and its events."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_lease(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return self.make_fields(parts, ctx, _find_lease(ctx, parsed_args.lease))


class CreateLease(_LeaseShower):
    """Create a lease, whole or not at all, and show it.

    Whoever may run commands may lease in the name of any project; the rules for leases and the
    project's limits hold as for the API.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME", type=_parse_name, help="what it is called")
        _add_request(parser)
        _add_window(parser)
        parser.add_argument(
            "--before-end", "--before-end-date", type=moments.parse_moment, metavar="TIME",
            help="when to tell that it ends; left out: as [reservations] "
            "minutes_before_end_lease says")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        reservations = get_reservations(parsed_args)
        with self.parts(parsed_args) as (parts, ctx):
            lease = parts.leases.create(ctx, NewLease(
                parsed_args.name, find_project_id(parts, ctx, parsed_args.project),
                parsed_args.user, parsed_args.start, parsed_args.end, reservations,
                parsed_args.before_end))
            return self.make_fields(parts, ctx, lease)


class DeleteLease(base.Command):
    """End a lease if it is in force, and give it up."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_lease(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            lease = _find_lease(ctx, parsed_args.lease)
            parts.leases.delete(ctx, lease.id)
        self.say(f"deleted {lease.name} ({lease.id})")


class ShowWhatIf(base.Shower):
    """Say whether a lease would be admitted; nothing is written.

    Exit code 1: there is no room for it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = _add_request(super().get_parser(prog_name))
        _add_window(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        refusal: DoesNotFit | None = None
        reservations = get_reservations(parsed_args)
        with self.parts(parsed_args) as (parts, ctx):
            try:
                parts.leases.what_if(ctx, NewLease(
                    name="what if",
                    project_id=find_project_id(parts, ctx, parsed_args.project),
                    user_id=parsed_args.user, start_at=parsed_args.start,
                    end_at=parsed_args.end, reservations=reservations))
            except DoesNotFit as error:
                refusal, self.exit_code = error, 1
        fits_at = refusal.fits_at if isinstance(refusal, NoRoom) else None
        return ("fits", "reason", "missing", "during", "fits_at"), (
            refusal is None, refusal and str(refusal), _Missing(refusal and dict(refusal.missing)),
            refusal and refusal.during and str(refusal.during), fits_at and _format_time(fits_at))


class ShowNextFit(base.Shower):
    """Say when a lease of some reservations would fit.

    Exit code 1: at no time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = _add_request(super().get_parser(prog_name))
        parser.add_argument("--minutes", type=_parse_count, metavar="N", required=True,
                            help="how long it lasts")
        parser.add_argument("--start", type=moments.parse_start, metavar="TIME",
                            help=f"no earlier than then, {moments.HELP}; left out: now")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        reservations = get_reservations(parsed_args)
        with self.parts(parsed_args) as (parts, ctx):
            fit = parts.leases.next_fit(
                ctx, find_project_id(parts, ctx, parsed_args.project), reservations,
                since=parsed_args.start, seconds=60 * parsed_args.minutes)
        names = ("start_at", "end_at", "earliest")
        if fit is None:
            self.exit_code = 1
            return names, (None, None, None)
        return names, (
            _format_time(fit.window.start_at), _format_time(fit.window.end_at), fit.earliest)


class ShowTimeline(base.Lister):
    """Show how much of the freepool is free over time.

    Each amount is that of all hosts, out of what they have. The bar is of VCPUs: # is free,
    . is leased, or on hosts that are out of service.
    """

    empty = "The freepool has no hosts: nothing can be leased."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--start", type=moments.parse_moment, metavar="TIME", default="now",
                            help=f"{moments.HELP}; left out: now")
        parser.add_argument("--days", type=_parse_count, default=365, metavar="N",
                            help="how many; left out: 365")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        start_at = parsed_args.start
        window = Window(start_at, start_at + datetime.timedelta(days=parsed_args.days))
        with self.parts(parsed_args) as (parts, ctx):
            timeline = parts.leases.timeline(ctx, window)
        total = timeline.total
        rows = [
            (_format_time(step.window.start_at), _format_time(step.window.end_at),
             _FreeAmount((step.hosts, total.hosts)), _FreeAmount((step.vcpus, total.vcpus)),
             _FreeAmount((step.memory_mb, total.memory_mb)),
             _FreeAmount((step.disk_gb, total.disk_gb)))
            for step in timeline.steps]
        names = ("start_at", "end_at", "hosts", "vcpus", "memory_mb", "disk_gb")
        if parsed_args.formatter != base.TABLE:
            return names, rows
        if not total.hosts:
            return names, []
        return (*names, "free"), [
            (*row, base.draw_bar(step.vcpus, total.vcpus))
            for row, step in zip(rows, timeline.steps, strict=True)]


# Arguments ---------------------------------------------------------------------------


def _add_lease(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("lease", metavar="LEASE", help="its name or its id")
    return parser


def _find_lease(ctx: Context, text: str) -> Lease:
    """Return the one lease of an id or name; an id wins."""
    try:
        return lease_queries.get(ctx, text)
    except LeaseNotFound:
        leases = lease_queries.page(ctx, name=text)
    if not leases:
        raise base.Failed(f"there is no lease of id or name {text}")
    require_one([lease.id for lease in leases], "leases", text)
    return leases[0]


def _add_request(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--project", required=True, metavar="PROJECT",
                        help="whose lease it is: the id or name of a project")
    add_reservations(parser)
    return parser


def _add_window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--start", "--start-date", type=moments.parse_start, metavar="TIME",
                        help=f"{moments.HELP}; left out: now")
    parser.add_argument("--end", "--end-date", type=moments.parse_moment, metavar="TIME",
                        required=True, help="likewise; +2d is from now on, too")
    parser.add_argument("--user", default="", metavar="ID", help="who asks for it")


def _parse_name(text: str) -> str:
    if not text.strip() or len(text) > _LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"expected 1 to {_LONGEST_NAME} characters")
    return text


def _parse_count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 10_000_000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 10000000")
    return count


# What is shown -----------------------------------------------------------------------


def _format_time(at: datetime.datetime) -> str:
    return at.isoformat()


class _Missing(base.FormattableColumn):
    """What a lease does not get: {what: how much of it}, or None."""

    def human_readable(self) -> str:
        """Return it in one line."""
        missing: Mapping[str, int] = self._value or {}
        return ", ".join(f"{amount} {what}" for what, amount in missing.items())


class _FreeAmount(base.FormattableColumn):
    """An amount that is free, and how much there is; machines read what is free."""

    def human_readable(self) -> str:
        """Return both."""
        free, total = self._value
        return f"{free} of {total}"

    def machine_readable(self) -> int:
        """Return how much is free."""
        free: int = self._value[0]
        return free


class _Reservations(base.FormattableColumn):
    """What a lease is made of."""

    def human_readable(self) -> str:
        """Return a line for each reservation."""
        lease: Lease = self._value
        return "\n".join(
            f"{reservation.resource_type} {reservation.status}: " + ", ".join(
                f"{name} {value}" for name, value in reservation.fields.items()
                if value not in (None, ""))
            for reservation in lease.reservations)

    def machine_readable(self) -> list[Mapping[str, Any]]:
        """Return the reservations with their fields."""
        lease: Lease = self._value
        return [
            {"id": reservation.id, "resource_type": reservation.resource_type,
             "status": reservation.status,
             "missing_resources": reservation.missing_resources,
             "resources_changed": reservation.resources_changed,
             **reservation.fields, **reservation.compute_ids}
            for reservation in lease.reservations]


class _LeasedHosts(base.FormattableColumn):
    """What reservations hold of hosts."""

    def human_readable(self) -> str:
        """Return a line for each host and reservation."""
        held: Sequence[HostAllocation] = self._value
        return "\n".join(
            f"{allocation.host_name} " + (
                "whole" if allocation.whole else
                f"{allocation.slots} slot{'s'[:allocation.slots > 1]}")
            for allocation in held)

    def machine_readable(self) -> list[Mapping[str, Any]]:
        """Return hosts with what is held."""
        held: Sequence[HostAllocation] = self._value
        return [
            {"host_id": allocation.host_id, "host_name": allocation.host_name,
             "reservation_id": allocation.reservation_id, "slots": allocation.slots,
             "whole": allocation.whole, "ended": allocation.ended}
            for allocation in held]


class _Events(base.FormattableColumn):
    """What happens to a lease."""

    def human_readable(self) -> str:
        """Return a line for each event."""
        lease: Lease = self._value
        return "\n".join(
            f"{event.event_type} {event.status} {_format_time(event.due_at)}"
            + (f": {event.problem}" if event.problem else "") for event in lease.events)

    def machine_readable(self) -> list[Mapping[str, Any]]:
        """Return the events."""
        lease: Lease = self._value
        return [
            {"id": event.id, "event_type": event.event_type, "status": event.status,
             "due_at": _format_time(event.due_at), "problem": event.problem}
            for event in lease.events]
