"""People of the cloud: what they send to nova and to the reservation API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import session as keystone_session
from keystoneauth1.identity import v3

from tests import keystone_service
from tests.nova import neighbours

#: Servers are in one of them when nova has done with them.
_SETTLED = frozenset({"ACTIVE", "ERROR", "SHUTOFF"})
_PATIENCE_SECONDS = 180
_VERSIONS = {"compute": "2.96", "placement": "1.39"}


class Refused(Exception):
    """An answer that is no success.

    :ivar status: of HTTP.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Client:
    """Somebody who has logged in.

    :ivar project_id: the project for which it did.
    """

    def __init__(self, auth_url: str, user: str, project: str) -> None:
        self._session = keystone_session.Session(v3.Password(
            auth_url, username=user, password=keystone_service.PASSWORD, project_name=project,
            user_domain_id="default", project_domain_id="default"), timeout=120)
        self.project_id: str = self._session.get_project_id()

    def call(
        self, service: str, method: str, path: str, body: Any = None
    ) -> Any:
        """Send a request to a service of the catalog; return the document.

        :param service: its type: ``compute``, ``placement``, ``reservation``.
        :raises Refused: it is not a success.
        """
        answer = self._request(service, method, path, body, _VERSIONS.get(service))
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def send(
        self, service: str, method: str, path: str, body: Any = None, *, microversion: str
    ) -> tuple[int, Any]:
        """Send a request with a microversion; return status and document, whichever it is."""
        answer = self._request(service, method, path, body, microversion)
        return answer.status_code, answer.json() if answer.content else None

    def _request(
        self, service: str, method: str, path: str, body: Any, microversion: str | None
    ) -> Any:
        return self._session.request(
            path, method, json=body, raise_exc=False, microversion=microversion,
            endpoint_filter={"service_type": service, "interface": "public"})

    # Servers -----------------------------------------------------------------

    def boot(
        self, name: str, flavor: str, *, hints: Mapping[str, Any] | None = None,
        zone: str | None = None, **fields: Any,
    ) -> str:
        """Ask for a server without networks; return its id.

        :param hints: for the scheduler, such as ``reservation`` or ``group``.
        """
        body: dict[str, Any] = {"server": {
            "name": name, "flavorRef": flavor, "imageRef": neighbours.IMAGE,
            "networks": "none", **({"availability_zone": zone} if zone else {}), **fields}}
        if hints:
            body["OS-SCH-HNT:scheduler_hints"] = dict(hints)
        return str(self.call("compute", "POST", "/servers", body)["server"]["id"])

    def boot_together(self, name: str, flavor: str, count: int) -> list[str]:
        """Ask for several servers in one request; return their ids."""
        made = self.call("compute", "POST", "/servers", {"server": {
            "name": name, "flavorRef": flavor, "imageRef": neighbours.IMAGE,
            "networks": "none", "min_count": count, "return_reservation_id": True}})
        return [server["id"] for server in self.servers(
            reservation_id=made["reservation_id"])]

    def wait_for_server(self, id_: str, seconds: float = _PATIENCE_SECONDS) -> Any:
        """Return a server when nova has made it, or given up."""
        return wait_for(
            f"server {id_}", lambda: self._settled(id_), seconds)

    def _settled(self, id_: str) -> Any:
        server = self.call("compute", "GET", f"/servers/{id_}")["server"]
        return server if server["status"] in _SETTLED else None

    def servers(self, **query: str) -> list[Any]:
        """Return servers with all details."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return list(self.call("compute", "GET", f"/servers/detail?{asked}")["servers"])

    def delete_server(self, id_: str) -> None:
        """Delete a server; wait until it is gone."""
        self.call("compute", "DELETE", f"/servers/{id_}")
        self.wait_until_gone(id_)

    def wait_until_gone(self, id_: str, seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait until there is no such server."""
        wait_for(f"the end of server {id_}", lambda: self._is_gone(id_), seconds)

    def _is_gone(self, id_: str) -> bool:
        try:
            self.call("compute", "GET", f"/servers/{id_}")
        except Refused as error:
            if error.status != 404:
                raise
            return True
        return False

    # Leases ------------------------------------------------------------------

    def lease(
        self, name: str, *reservations: Mapping[str, Any], start: str = "now",
        end: str | None = None,
    ) -> Any:
        """Make a lease; return it.

        :param end: by default in a day.
        """
        body = {"name": name, "start_date": start, "end_date": end or _minute(86_400),
                "reservations": list(reservations), "events": []}
        return self.call("reservation", "POST", "/leases", body)["lease"]

    def show_lease(self, id_: str) -> Any:
        """Return a lease."""
        return self.call("reservation", "GET", f"/leases/{id_}")["lease"]

    def wait_for_lease(
        self, id_: str, status: str = "ACTIVE", seconds: float = _PATIENCE_SECONDS
    ) -> Any:
        """Return a lease when it has a status."""
        return wait_for(f"lease {id_} {status}", lambda: self._lease_with(id_, status), seconds)

    def _lease_with(self, id_: str, status: str) -> Any:
        lease = self.show_lease(id_)
        return lease if lease["status"] == status else None

    def end_lease(self, id_: str) -> None:
        """Delete a lease: one in force ends at once."""
        self.call("reservation", "DELETE", f"/leases/{id_}")


def host_reservation(count: int = 1, **fields: Any) -> dict[str, Any]:
    """Return what asks for whole hosts."""
    return {"resource_type": "physical:host", "min": count, "max": count,
            "hypervisor_properties": "", "resource_properties": "", **fields}


def instance_reservation(
    amount: int, affinity: bool | None, **fields: Any
) -> dict[str, Any]:
    """Return what asks for slots of one processor."""
    return {"resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 512, "disk_gb": 1,
            "amount": amount, "affinity": affinity, "resource_properties": "", **fields}


def wait_for(what: str, question: Callable[[], Any], seconds: float = _PATIENCE_SECONDS) -> Any:
    """Return the first answer that is true.

    :raises AssertionError: there is none in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not in {seconds:.0f} s")
        time.sleep(0.3)


def _minute(seconds: float) -> str:
    """Return a minute as the reservation API has it, so many seconds from now."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(time.time() + seconds))
