"""``placement-core leases …``: who has reserved what, and what could still be."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core.cli import base
from placement_core.plugin_api.reservations import DoesNotFit, Window
from placement_core.reservations.errors import NoRoom
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import Lease, NewLease, NewReservation
from placement_core.reservations.scheduling.availability import FreeStep

#: How many leases are read at a time.
_PAGE = 1000

_FORMAT = "%Y-%m-%d %H:%M"
#: As many characters as the longest bar of a timeline has.
_BAR = 20

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class List(base.Lister):
    """List leases, those that have ended included until they are deleted."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--project", metavar="ID", help="only those of this project")
        parser.add_argument(
            "--status", choices=["PENDING", "ACTIVE", "TERMINATED", "ERROR"], help="only these")
        parser.add_argument(
            "--host", type=int, metavar="ID", help="only those that hold something of this host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        leases: list[Lease] = []
        with self.parts(parsed_args) as (_, ctx):
            while True:
                page = lease_queries.page(
                    ctx, project_id=parsed_args.project, status=parsed_args.status,
                    host_id=parsed_args.host, after=leases[-1].id if leases else None,
                    limit=_PAGE)
                leases += page
                if len(page) < _PAGE:
                    break
        return ("id", "name", "project_id", "status", "start_at", "end_at", "reservations"), [
            (lease.id, lease.name, lease.project_id, lease.status, _format_time(lease.start_at),
             _format_time(lease.end_at), _Reservations(lease)) for lease in leases]


class Show(base.Shower):
    """Show a lease: its reservations and its events."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_lease(super().get_parser(prog_name))

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            lease = lease_queries.get(ctx, parsed_args.lease)
        return (
            "id", "name", "project_id", "user_id", "status", "degraded", "start_at", "end_at",
            "reservations", "events",
        ), (
            lease.id, lease.name, lease.project_id, lease.user_id, lease.status,
            lease.degraded, _format_time(lease.start_at), _format_time(lease.end_at),
            _Reservations(lease), _Events(lease))


class Delete(base.Command):
    """End a lease if it is in force, and give it up."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_lease(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            parts.leases.delete(ctx, parsed_args.lease)
        self.say(f"deleted {parsed_args.lease}")


class WhatIf(base.Shower):
    """Say whether a lease would be admitted; nothing is written.

    Exit code 1: there is no room for it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = _add_reservations(super().get_parser(prog_name))
        parser.add_argument("--start", type=_parse_moment, metavar="TIME",
                            help="YYYY-MM-DD HH:MM, in UTC; left out: now")
        parser.add_argument("--end", type=_parse_moment, metavar="TIME", required=True,
                            help="YYYY-MM-DD HH:MM, in UTC")
        parser.add_argument("--user", default="", metavar="ID", help="who asks for it")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Run the command."""
        refusal: DoesNotFit | None = None
        with self.parts(parsed_args) as (parts, ctx):
            try:
                parts.leases.what_if(ctx, NewLease(
                    name="what if", project_id=parsed_args.project, user_id=parsed_args.user,
                    start_at=parsed_args.start, end_at=parsed_args.end,
                    reservations=parsed_args.reservations))
            except DoesNotFit as error:
                refusal, self.exit_code = error, 1
        fits_at = refusal.fits_at if isinstance(refusal, NoRoom) else None
        return ("fits", "reason", "missing", "during", "fits_at"), (
            refusal is None, refusal and str(refusal), refusal and dict(refusal.missing),
            refusal and refusal.during and str(refusal.during), fits_at and _format_time(fits_at))


class NextFit(base.Shower):
    """Say when a lease of some reservations would fit.

    Exit code 1: at no time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = _add_reservations(super().get_parser(prog_name))
        parser.add_argument("--minutes", type=_parse_count, metavar="N", required=True,
                            help="how long it lasts")
        parser.add_argument("--start", type=_parse_moment, metavar="TIME",
                            help="no earlier than YYYY-MM-DD HH:MM, in UTC; left out: now")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            fit = parts.leases.next_fit(
                ctx, parsed_args.project, parsed_args.reservations, since=parsed_args.start,
                seconds=60 * parsed_args.minutes)
        names = ("start_at", "end_at", "earliest")
        if fit is None:
            self.exit_code = 1
            return names, (None, None, None)
        return names, (
            _format_time(fit.window.start_at), _format_time(fit.window.end_at), fit.earliest)


class Timeline(base.Lister):
    """Show how much of the freepool is free over time; the bar is of VCPUs."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--start", type=_parse_moment, metavar="TIME",
                            help="YYYY-MM-DD HH:MM, in UTC; left out: now")
        parser.add_argument("--days", type=_parse_count, default=365, metavar="N",
                            help="how many; left out: 365")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        start_at = parsed_args.start or datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        window = Window(start_at, start_at + datetime.timedelta(days=parsed_args.days))
        with self.parts(parsed_args) as (parts, ctx):
            steps = parts.leases.timeline(ctx, window)
        names = ("start_at", "end_at", "hosts", "vcpus", "memory_mb", "disk_gb")
        rows = [(_format_time(step.window.start_at), _format_time(step.window.end_at),
                 step.hosts, step.vcpus, step.memory_mb, step.disk_gb) for step in steps]
        if parsed_args.formatter != "table":
            return names, rows
        return (*names, "free"), [
            (*row, bar) for row, bar in zip(rows, _draw_bars(steps), strict=True)]


def _draw_bars(steps: Sequence[FreeStep]) -> list[str]:
    most = max((step.vcpus for step in steps), default=0) or 1
    return ["#" * -(-_BAR * step.vcpus // most) for step in steps]


# Arguments ---------------------------------------------------------------------------


def _add_lease(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("lease", metavar="LEASE", help="its id")
    return parser


def _add_reservations(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--project", required=True, metavar="ID", help="whose lease it is")
    parser.add_argument(
        "--reservation", dest="reservations", type=_parse_reservation, action="append",
        required=True, metavar="JSON",
        help='as in the body of a lease, such as \'{"resource_type": "physical:host", "min": 1, '
        '"max": 1}\'; repeatable')
    return parser


def _parse_reservation(text: str) -> NewReservation:
    try:
        fields = json.loads(text)
        return NewReservation(fields.pop("resource_type"), fields)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise argparse.ArgumentTypeError(
            "expected a JSON object with resource_type") from None


def _parse_moment(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.strptime(text, _FORMAT).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise argparse.ArgumentTypeError("expected YYYY-MM-DD HH:MM") from None


def _parse_count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 10_000_000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 10000000")
    return count


# What is shown -----------------------------------------------------------------------


def _format_time(at: datetime.datetime) -> str:
    return at.isoformat()


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
             **reservation.fields, **reservation.made}
            for reservation in lease.reservations]


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
