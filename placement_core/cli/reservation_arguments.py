"""Reservations on command lines, as Blazar's client writes them, or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from placement_core.cli import base
from placement_core.reservations.records import NewReservation

_TYPE = "resource_type"
_WHOLE_HOST = "physical:host"
_OPENING, _CLOSING = "[{(", "]})"


def add_reservations(parser: argparse.ArgumentParser) -> None:
    """Add the options; ``get_reservations`` returns what they ask for."""
    parser.add_argument(
        "--reservation", dest="reservations", type=_parse_reservation, action="append",
        default=[], metavar="KEY=VALUE,…",
        help="a reservation, such as resource_type=virtual:instance,vcpus=4,memory_mb=4096,"
        "disk_gb=10,amount=2,affinity=None; or as in the body of a lease, as JSON; repeatable")
    parser.add_argument(
        "--physical-reservation", dest="physical_reservations", type=_parse_physical,
        action="append", default=[], metavar="KEY=VALUE,…",
        help="a reservation of whole hosts, such as min=1,max=2,hypervisor_properties=,"
        "resource_properties='[\">=\", \"$vcpus\", \"8\"]'; repeatable")


def get_reservations(parsed_args: argparse.Namespace) -> list[NewReservation]:
    """Return the reservations that a command line asks for, whole hosts first."""
    reservations = [*parsed_args.physical_reservations, *parsed_args.reservations]
    if not reservations:
        raise base.Failed("expected --reservation or --physical-reservation")
    return reservations


def _parse_reservation(text: str) -> NewReservation:
    fields = _parse_json(text) if text.lstrip().startswith("{") else _parse_fields(text)
    resource_type = fields.pop(_TYPE, None)
    if not isinstance(resource_type, str):
        raise argparse.ArgumentTypeError(f"{text!r}: expected {_TYPE}, such as virtual:instance")
    return NewReservation(resource_type, fields)


def _parse_physical(text: str) -> NewReservation:
    fields = _parse_fields(text)
    if fields.setdefault(_TYPE, _WHOLE_HOST) != _WHOLE_HOST:
        raise argparse.ArgumentTypeError(
            f"{_TYPE}={fields[_TYPE]}: expected {_WHOLE_HOST}, or --reservation instead")
    del fields[_TYPE]
    return NewReservation(_WHOLE_HOST, fields)


def _parse_json(text: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(text)
    except (RecursionError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a JSON object") from None
    return fields


def _parse_fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for item in _split(text):
        key, sign, value = item.partition("=")
        key = key.strip()
        if not key or not sign or key in fields:
            raise argparse.ArgumentTypeError(
                f"{item!r}: expected KEY=VALUE, each key once, with commas between them")
        fields[key] = value
    return fields


def _split(text: str) -> Iterator[str]:
    """Split at the commas that are neither in brackets nor in double quotes."""
    start = depth = 0
    quoted = False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in _OPENING) - (character in _CLOSING)
            if character == "," and depth <= 0:
                yield text[start:position]
                start = position + 1
    yield text[start:]
