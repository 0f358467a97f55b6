"""A freepool with some hosts, and requests to the reservation API."""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
import webob

from placement_core.db import metadata
from placement_core.reservations.leases.transitions import EventAttempt
from placement_core.reservations.manager import event_queue
from placement_core.testing import factories
from tests.http import base
from tests.round_trips import RoundTrips

#: An id that nothing has.
NOBODY = "00000000-0000-4000-8000-000000000000"

Document = dict[str, Any]


#: Of this run: the same for all of a test, also when an hour begins in its middle.
_HOUR = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)


def date(days: float) -> str:
    """Return the beginning of an hour, some days from now, as clients send it."""
    return f"{_HOUR + datetime.timedelta(hours=round(24 * days)):%Y-%m-%d %H:%M}"


def instance(**fields: Any) -> Document:
    """Return a reservation of one slot of 1 VCPU, 1 GiB of memory and 10 GiB of disk."""
    return {"resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1024, "disk_gb": 10,
            "amount": 1, "affinity": None, "resource_properties": "", **fields}


def whole(**fields: Any) -> Document:
    """Return a reservation of one whole host."""
    return {"resource_type": "physical:host", "min": 1, "max": 1, "hypervisor_properties": "",
            "resource_properties": "", **fields}


class LeasesTestCase(base.HttpTestCase):
    """A service with an empty freepool.

    Callers are ``jane`` of the project ``demo``, a member, if nothing else is said.
    """

    def setUp(self) -> None:
        super().setUp()
        self.services = self.parts[0]
        self.ctx = self.services.context()
        self.trips = RoundTrips(self.services.database)

    def v1(
        self, method: str, path: str, body: Any = None, *, status: int | None = None,
        token: str | None = "jane:demo", roles: str = "member", **options: Any,
    ) -> webob.Response:
        """Send one request; ``path`` is below /v1."""
        headers = {"Host": "localhost", "X-Roles": roles, **options.pop("headers", {})}
        if token == "admin":
            headers["X-Roles"] = "admin"
        response = self.ask(method, f"/v1{path}", body, token=token, version=None,
                            headers=headers, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response

    def host(
        self, name: str = "c1", *, vcpus: int = 8, memory_mb: int = 16384, disk_gb: int = 200,
        **capabilities: str,
    ) -> str:
        """Make a resource provider, and let it into the freepool; return the host's id."""
        factories.provider(self.ctx, name, inventory={
            "VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb})
        made = self.v1("POST", "/os-hosts", {"name": name, **capabilities}, token="admin",
                       status=201)
        return str(made.json["host"]["id"])

    def body(self, *reservations: Document, **fields: Any) -> Document:
        """Return the body of a lease from tomorrow to the day after."""
        return {"name": "a", "start_date": date(1), "end_date": date(2),
                "reservations": list(reservations or [instance()]), "events": [],
                "before_end_date": None, **fields}

    def lease(self, *reservations: Document, **fields: Any) -> Document:
        """Make a lease."""
        options = {key: fields.pop(key) for key in ("token", "roles") if key in fields}
        made: Document = self.v1(
            "POST", "/leases", self.body(*reservations, **fields), status=201, **options
        ).json["lease"]
        return made

    def shown(self, lease: Document | str, **options: Any) -> Document:
        """Return a lease as it is now."""
        id_ = lease if isinstance(lease, str) else lease["id"]
        found: Document = self.v1("GET", f"/leases/{id_}", status=200, **options).json["lease"]
        return found

    def due(self) -> list[EventAttempt]:
        """Take what is due, as a manager would."""
        return event_queue.dequeue(self.ctx, "somebody", most=100, seconds=60)

    def carry_out_due(self) -> list[str]:
        """Carry out what is due; return the types of the events."""
        turns = self.due()
        for turn in turns:
            self.assertTrue(self.services.transitions.execute(self.ctx, turn))
        return [turn.event_type for turn in turns]

    def held(self, **query: str) -> dict[str, int]:
        """Return how many slots are held of each host, by its id."""
        text = "&".join(f"{key}={value}" for key, value in query.items())
        found = self.v1("GET", f"/os-hosts/allocations?{text}", token="admin", status=200)
        return {each["resource_id"]: len(each["reservations"])
                for each in found.json["allocations"] if each["reservations"]}

    def refused(
        self, status: int, said: str, method: str, path: str, body: Any = None, **options: Any
    ) -> Document:
        """Expect the error document of an operation; return it."""
        response = self.v1(method, path, body, status=status, **options)
        document: Document = response.json
        self.assertEqual({"error_code", "error_message", "error_name"}, set(document))
        self.assertEqual(status, document["error_code"])
        self.assertIn(said, document["error_message"])
        self.assertIsInstance(document["error_name"], str)
        return document

    def turned_away(
        self, status: int, said: str, method: str, path: str, body: Any = None, **options: Any
    ) -> webob.Response:
        """Expect the error document of what never reached an operation."""
        response = self.v1(method, path, body, status=status, **options)
        self.assertEqual({"error", "error_message"}, set(response.json))
        self.assertEqual(status, response.json["error"])
        self.assertIn(said, response.json["error_message"])
        return response

    def rows(self) -> dict[str, list[tuple[str, ...]]]:
        """Return every row there is."""
        with self.services.database.autocommit.connect() as connection:
            return {
                table.name: sorted(
                    tuple(map(repr, row)) for row in connection.execute(sa.select(table)))
                for table in metadata.sorted_tables}
