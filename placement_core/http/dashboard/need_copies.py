"""The questions of the overview's form as commands and as requests, to be copied."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Any

from placement_core.http.dashboard.need_form import NeedForm
from placement_core.http.leases_api import dates
from placement_core.needs import Need

_PROGRAM = "placement-core"
_DATE = "%Y-%m-%d %H:%M"


@dataclasses.dataclass(frozen=True, slots=True)
class Copies:
    """A question as a command line, and as a request with curl."""

    command: str
    request: str


def copy_room(form: NeedForm, address: str) -> Copies:
    """Return the question whether there is room.

    :param address: the URL of the service.
    """
    query = {"resources": form.resources}
    if form.values["required"]:
        query["required"] = form.values["required"]
    return Copies(
        _join(_PROGRAM, "capacity", "fits", urllib.parse.urlencode(query, safe=":,!_")),
        _curl(f"{address}/capacity/v1/room/fits?{urllib.parse.urlencode(query)}"))


def copy_permission(deltas: Mapping[str, int], project_id: str, address: str) -> Copies:
    """Return the question whether a project may have more of some resources."""
    body = json.dumps({"project_id": project_id, "deltas": deltas})
    return Copies(
        _join(_PROGRAM, "quota", "explain", project_id, *(
            f"{name}={amount}" for name, amount in deltas.items())),
        _curl(f"{address}/capacity/v1/explain/quota",
              "-H", "Content-Type: application/json", "-d", body))


def copy_time(need: Need, project_id: str, address: str) -> Copies:
    """Return the question when a lease fits."""
    fields = _make_fields(need)
    assert need.seconds is not None
    query = {"reservations": json.dumps([fields]), "seconds": str(need.seconds)}
    start = []
    if need.start_at is not None:
        query["start"] = dates.format_lease_date(need.start_at)
        start = ["--start", need.start_at.strftime(_DATE)]
    return Copies(
        _join(_PROGRAM, "leases", "next-fit", "--project", project_id, "--reservation",
              _format_fields(fields), "--minutes", str(need.seconds // 60), *start),
        _curl(f"{address}/capacity/v1/reservations/next_fit?{urllib.parse.urlencode(query)}"))


def copy_lease(
    need: Need, start_at: datetime.datetime | None, end_at: datetime.datetime, project_id: str,
    address: str,
) -> Copies:
    """Return the question whether a lease would be admitted.

    :param start_at: None: it begins when the question is asked.
    """
    fields = _make_fields(need)
    assert need.seconds is not None
    start: list[str] = []
    end = f"+{need.seconds // 60}m"
    if start_at is not None:
        start, end = ["--start", start_at.strftime(_DATE)], end_at.strftime(_DATE)
    body = json.dumps({
        "name": "what if", "start_date": "now" if start_at is None else start_at.strftime(_DATE),
        "end_date": end_at.strftime(_DATE), "reservations": [fields]})
    return Copies(
        _join(_PROGRAM, "leases", "whatif", "--project", project_id, "--reservation",
              _format_fields(fields), *start, "--end", end),
        _curl(f"{address}/capacity/v1/reservations/whatif",
              "-H", "Content-Type: application/json", "-d", body))


def _make_fields(need: Need) -> dict[str, Any]:
    reservation = need.as_reservation()
    return {"resource_type": reservation.resource_type, **reservation.raw_fields}


def _format_fields(fields: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in fields.items())


def _join(*words: str) -> str:
    return shlex.join(words)


def _curl(address: str, *options: str) -> str:
    # The shell puts the token in, so that none is shown.
    return " ".join(["curl", '-H "X-Auth-Token: $TOKEN"', shlex.join([*options, address])])
