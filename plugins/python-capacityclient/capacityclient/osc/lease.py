"""``openstack capacity lease ...``: whether and when a lease would fit, and what is free."""

from __future__ import annotations

import argparse
import datetime
import json
import re
from typing import Any

from capacityclient.client import Refused
from capacityclient.osc.base import TABLE, Lister, Rows, draw_bar, parse_reservation

_FORMAT = "%Y-%m-%d %H:%M"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TIME_HELP = "now, a date such as 2030-01-31T08:00 (UTC), or +90m, +4h, +2d, +1w from now on"


class CheckLease(Lister):
    """Say whether a lease would be admitted; if not, what is missing, and when it would fit.

    Nothing is written. Exit code 1: it would be refused.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        _add_reservations(parser)
        parser.add_argument("--start", metavar="<time>", type=_parse_time, default="now",
                            help=f"{_TIME_HELP} (default: now)")
        parser.add_argument("--end", metavar="<time>", type=_parse_time, required=True,
                            help=_TIME_HELP)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return one row: whether it fits, and if not, why and from when on."""
        columns = ("fits", "reason", "missing", "fits_at")
        try:
            self.capacity.ask("/reservations/whatif", {
                "name": "whatif", "start_date": parsed_args.start, "end_date": parsed_args.end,
                "reservations": parsed_args.reservation, "events": []})
        except Refused as refusal:
            if "fits_at" not in refusal.document:
                raise
            self.exit_code = 1
            document = refusal.document
            missing = document["missing"]
            return columns, [(
                False, document["detail"],
                _format_missing(missing) if parsed_args.formatter == TABLE else missing,
                document["fits_at"])]
        return columns, [(True, None, None, None)]


class FindNextFit(Lister):
    """Say when a lease of some reservations would fit.

    Exit code 1: at no time that was tried.
    """

    empty = "It fits at no time."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        _add_reservations(parser)
        parser.add_argument("--minutes", metavar="<minutes>", type=int, required=True,
                            help="how long the lease lasts")
        parser.add_argument("--start", metavar="<time>", type=_parse_time,
                            help=f"no earlier than then: {_TIME_HELP} (default: now)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return the window, if there is one."""
        fit = self.capacity.get("/reservations/next_fit", {
            "reservations": json.dumps(parsed_args.reservation),
            "minutes": parsed_args.minutes, "start": parsed_args.start})["next_fit"]
        self.exit_code = int(fit is None)
        columns = ("start_at", "end_at", "earliest")
        return columns, [] if fit is None else [tuple(fit[name] for name in columns)]


class ShowTimeline(Lister):
    """Show how much of the freepool is free over time."""

    empty = "No host can be leased: the freepool is empty."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--start", metavar="<time>", type=_parse_time,
                            help=f"{_TIME_HELP} (default: now)")
        parser.add_argument("--end", metavar="<time>", type=_parse_time,
                            help=f"{_TIME_HELP} (default: a year later)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each time at which something changes; a bar of what is free."""
        answer = self.capacity.get("/reservations/timeline", {
            "start": parsed_args.start, "end": parsed_args.end})
        steps: list[dict[str, Any]] = answer["timeline"]
        total = answer["total"]
        columns = ("start_at", "end_at", "hosts", "vcpus", "memory_mb", "disk_gb")
        if not total["hosts"]:
            steps = []
        rows = [tuple(step[name] for name in columns) for step in steps]
        if answer["links"]["next"]:
            self.say(f"more follows after {steps[-1]['end_at']}")
        if parsed_args.formatter != TABLE:
            return columns, rows
        return (*columns, "free"), [
            (*row, draw_bar(step["vcpus"], total["vcpus"]))
            for row, step in zip(rows, steps, strict=True)]


def _add_reservations(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reservation", metavar="<reservation>", action="append", required=True,
        type=parse_reservation,
        help="what the lease consists of, as JSON or as Blazar's client writes it: "
        "resource_type=virtual:instance,vcpus=4,memory_mb=4096,disk_gb=10,amount=2 or "
        "resource_type=physical:host,min=1,max=2; repeatable")


def _parse_time(text: str) -> str:
    """Return a time as the API takes it."""
    if text == "now":
        return text
    if match := re.fullmatch(r"\+(\d{1,6})([mhdw])", text):
        delta = datetime.timedelta(**{_UNITS[match[2]]: int(match[1])})
        return (datetime.datetime.now(datetime.UTC) + delta).strftime(_FORMAT)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {_TIME_HELP}") from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return moment.strftime(_FORMAT)


def _format_missing(missing: dict[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in missing.items())
