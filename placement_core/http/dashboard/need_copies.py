"""The questions of the overview's form as commands and as requests, to be copied."""

from __future__ import annotations

import dataclasses
import json
import shlex
import urllib.parse
from collections.abc import Mapping

from placement_core.http.dashboard.need_form import NeedForm
from placement_core.http.leases_api import dates
from placement_core.needs import Need

_PROGRAM = "placement-core"


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
    reservation = need.as_reservation()
    fields = {"resource_type": reservation.resource_type, **reservation.raw_fields}
    assert need.seconds is not None
    query = {"reservations": json.dumps([fields]), "seconds": str(need.seconds)}
    start = []
    if need.start_at is not None:
        text = need.start_at.strftime("%Y-%m-%d %H:%M")
        query["start"] = dates.format_lease_date(need.start_at)
        start = ["--start", text]
    return Copies(
        _join(_PROGRAM, "leases", "next-fit", "--project", project_id, "--reservation",
              ",".join(f"{name}={value}" for name, value in fields.items()),
              "--minutes", str(need.seconds // 60), *start),
        _curl(f"{address}/capacity/v1/reservations/next_fit?{urllib.parse.urlencode(query)}"))


def _join(*words: str) -> str:
    return shlex.join(words)


def _curl(address: str, *options: str) -> str:
    # The shell puts the token in, so that none is shown.
    return " ".join(["curl", '-H "X-Auth-Token: $TOKEN"', shlex.join([*options, address])])
