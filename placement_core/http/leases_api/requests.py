"""Parses bodies to requests of the domain. Source: spec blazar §2."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.context import Identity
from placement_core.http.errors import NotAllowed
from placement_core.http.leases_api import dates
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.records import (
    ChangedReservation,
    LeaseChange,
    NewLease,
    NewReservation,
)

Body = Mapping[str, Any]


def parse_new_lease(body: Body, caller: Identity, rule: str) -> NewLease:
    """Return the new lease that a body describes.

    :param rule: the policy rule of the operation, for the error if the caller has no project.
    :raises InvalidLease: a field is missing, or a date is invalid.
    :raises NotAllowed: the caller has no project, or no user.
    """
    if caller.project_id is None or caller.user_id is None:
        raise NotAllowed(rule)
    start, end = _get_by_alias(body, "start_date", "start"), _get_by_alias(body, "end_date", "end")
    required = {"name": body.get("name"), "start_date": start, "end_date": end}
    missing = [name for name, value in required.items() if value is None]
    if not missing and not body.get("reservations"):
        missing = ["reservations"]
    if missing:
        raise InvalidLease(f"Missing parameter {', '.join(missing)}", missing[0])
    assert start is not None
    assert end is not None
    start_at, end_at = dates.parse_or_now(start, "start_date"), _parse_end(end)
    return NewLease(
        name=body["name"], project_id=caller.project_id, user_id=caller.user_id,
        start_at=start_at, end_at=end_at, reservations=parse_reservations(body["reservations"]),
        before_end_at=_parse_before_end(body))


def parse_reservations(items: Sequence[Body]) -> list[NewReservation]:
    """Return the new reservations that a list describes.

    :raises InvalidLease: a resource type is missing.
    """
    reservations = []
    for item in items:
        if not item.get("resource_type"):
            raise InvalidLease("Missing parameter resource_type", "resource_type")
        reservations.append(NewReservation(item["resource_type"], _without(item, "resource_type")))
    return reservations


def parse_lease_change(body: Body) -> LeaseChange:
    """Return the change of a lease that a body describes.

    :raises InvalidLease: it changes nothing, a field is missing, or a date is invalid.
    """
    start, end = _get_by_alias(body, "start_date", "start"), _get_by_alias(body, "end_date", "end")
    change = LeaseChange(
        name=body.get("name"),
        start_at=None if start is None else dates.parse_or_now(start, "start_date"),
        end_at=None if end is None else dates.parse_or_now(end, "end_date"),
        before_end_at=_parse_before_end(body),
        start_now=start == dates.NOW, end_now=end == dates.NOW,
        reservations=[_parse_changed_reservation(item) for item in body.get("reservations", ())])
    if change == LeaseChange(reservations=[]):
        raise InvalidLease("No data to update", "lease")
    return change


def _parse_changed_reservation(item: Body) -> ChangedReservation:
    if not item.get("id"):
        raise InvalidLease("Missing parameter reservation ID", "id")
    return ChangedReservation(
        item["id"], item.get("resource_type"), _without(item, "id", "resource_type"))


def _get_by_alias(body: Body, name: str, alias: str) -> str | None:
    if name in body and alias in body:
        raise InvalidLease(f"{name} and {alias} are the same: one of them is enough", name)
    value: str | None = body.get(name, body.get(alias))
    return value


def _parse_before_end(body: Body) -> datetime.datetime | None:
    text = body.get("before_end_date")
    return None if text is None else dates.parse(text, "before_end_date")


def _parse_end(text: str) -> datetime.datetime:
    if text == dates.NOW:
        raise InvalidLease("End date must be later than start date.", "end_date")
    return dates.parse(text, "end_date")


# Hosts -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class HostChange:
    """Requested changes of a host; a field that is None does not change."""

    capabilities: Body
    name: str | None
    reservable: bool | None
    down_reason: str | None


def parse_new_host(body: Body) -> tuple[str, Body]:
    """Return the name and the capabilities of a new host.

    :raises InvalidLease: the name is missing, or sent twice.
    """
    names = [str(body[key]) for key in ("name", "id") if key in body]
    if len(names) != 1:
        raise InvalidLease(
            "name and id mean the same: one of them is enough" if names
            else "Missing parameter name", "name")
    return names[0], _without(body, "name", "id")


def parse_host_change(body: Body) -> HostChange:
    """Return the change of a host that a body describes."""
    reservable = body.get("reservable")
    return HostChange(
        _without(body, "name", "reservable", "down_reason"), body.get("name"),
        # The client's command line sends text.
        reservable.lower() == "true" if isinstance(reservable, str) else reservable,
        body.get("down_reason"))


def _without(body: Body, *names: str) -> Body:
    return {key: value for key, value in body.items() if key not in names}
