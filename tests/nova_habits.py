"""What the driver relies on in Nova's API: the same checks for the stand-in and a real nova.

The stand-in is written by those who write the driver, so it believes what they believe;
what it answers here, a real nova has to answer as well.
"""

from __future__ import annotations

import unittest
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class NovaHabits(_Mixin):
    """Requests of an administrator in the service's project.

    :ivar host: the name of a compute service, in no availability zone and without servers.
    :ivar project: the id of a project; another one Keystone does not know.
    """

    host: str
    project: str
    unknown_project = "de" * 16

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request with the driver's microversion; return status and document."""
        raise NotImplementedError

    def foreign_group(self) -> str:
        """Have a server group of a project that is not the service's; return its id."""
        raise NotImplementedError

    def _aggregate(self, zone: str | None = None) -> str:
        status, document = self.send("POST", "/os-aggregates", {"aggregate": {
            "name": str(uuid.uuid4()), **({"availability_zone": zone} if zone else {})}})
        self.assertEqual(200, status)
        path = f"/os-aggregates/{document['aggregate']['id']}"
        self.addCleanup(self.send, "DELETE", path)
        return path

    def _act(self, path: str, action: str, body: Any) -> tuple[int, Any]:
        return self.send("POST", f"{path}/action", {action: body})

    def _add_host(self, path: str) -> int:
        status, _ = self._act(path, "add_host", {"host": self.host})
        if status == 200:
            self.addCleanup(self._act, path, "remove_host", {"host": self.host})
        return status

    def _flavor(self) -> str:
        id_ = str(uuid.uuid4())
        status, _ = self.send("POST", "/flavors", {"flavor": {
            "id": id_, "name": f"of {id_}", "ram": 1, "vcpus": 1, "disk": 0,
            "os-flavor-access:is_public": False}})
        self.assertEqual(200, status)
        self.addCleanup(self.send, "DELETE", f"/flavors/{id_}")
        return id_

    def test_server_groups_belong_to_projects(self) -> None:
        """Those of others are not listed, unless an administrator asks for all."""
        group = self.foreign_group()

        def listed(query: str) -> bool:
            _, document = self.send("GET", f"/os-server-groups{query}")
            return group in [each["id"] for each in document["server_groups"]]

        self.assertEqual((False, True), (listed(""), listed("?all_projects=true")))

    def test_hosts_of_aggregates(self) -> None:
        path = self._aggregate()
        self.assertEqual(404, self._act(path, "remove_host", {"host": self.host})[0])
        self.assertEqual([200, 409], [self._add_host(path) for _ in range(2)])
        self.assertEqual(404, self._act(path, "add_host", {"host": "nobody"})[0])
        self.assertEqual(400, self.send("DELETE", path)[0])
        _, document = self.send("GET", "/os-aggregates")
        [hosts] = [each["hosts"] for each in document["aggregates"]
                   if path.endswith(f"/{each['id']}")]
        self.assertEqual([self.host], hosts)

    def test_zones(self) -> None:
        """A host is in one zone, and in any number of aggregates without."""
        first, second, without = self._aggregate("a"), self._aggregate("b"), self._aggregate()
        self.assertEqual([200, 200, 409], [
            self._add_host(path) for path in (first, without, second)])

    def test_aggregates_have_uuids_and_one_name(self) -> None:
        path = self._aggregate()
        _, document = self.send("GET", "/os-aggregates")
        [found] = [each for each in document["aggregates"] if path.endswith(f"/{each['id']}")]
        self.assertEqual(found["uuid"], str(uuid.UUID(found["uuid"])))
        status, _ = self.send("POST", "/os-aggregates", {"aggregate": {"name": found["name"]}})
        self.assertEqual(409, status)
        self.assertEqual(404, self.send("DELETE", "/os-aggregates/999999")[0])

    def test_metadata(self) -> None:
        """What is null goes, what is not named stays."""
        path = self._aggregate("a")
        self._act(path, "set_metadata", {"metadata": {"one": "1", "two": "2"}})
        _, document = self._act(path, "set_metadata", {"metadata": {"one": None, "x": "3,4"}})
        self.assertEqual({"availability_zone": "a", "two": "2", "x": "3,4"},
                         document["aggregate"]["metadata"])

    def test_flavors(self) -> None:
        """Of one id there is one; it is private until access is given, to a project there is."""
        id_ = self._flavor()
        status, _ = self.send("POST", "/flavors", {"flavor": {
            "id": id_, "name": "another", "ram": 1, "vcpus": 1, "disk": 0}})
        self.assertEqual(409, status)
        path = f"/flavors/{id_}"
        for project, statuses in (
                (self.project, [200, 409, 200, 404]), (self.unknown_project, [400, 404])):
            verbs = ("add", "remove") if len(statuses) == 2 else ("add", "add", "remove", "remove")
            self.assertEqual(statuses, [
                self._act(path, f"{verb}TenantAccess", {"tenant": project})[0]
                for verb in verbs])
        self.assertEqual(404, self.send("GET", f"/flavors/{uuid.uuid4()}")[0])

    def test_extra_specs(self) -> None:
        path = f"/flavors/{self._flavor()}/os-extra_specs"
        self.send("POST", path, {"extra_specs": {"resources:CUSTOM_X": "1", "y:z": "2"}})
        self.assertEqual([200, 404], [
            self.send("DELETE", f"{path}/y:z")[0] for _ in range(2)])
        _, document = self.send("GET", path.removesuffix("/os-extra_specs"))
        self.assertEqual({"resources:CUSTOM_X": "1"}, document["flavor"]["extra_specs"])

    def test_servers_of_a_flavor_that_is_not_there(self) -> None:
        """There are none, and nothing is said about it."""
        status, document = self.send(
            "GET", f"/servers/detail?all_tenants=True&flavor={uuid.uuid4()}")
        self.assertEqual((200, []), (status, document["servers"]))

    def test_hosts_by_name(self) -> None:
        status, _ = self.send(
            "GET", "/os-hypervisors/detail?hypervisor_hostname_pattern=nobody")
        self.assertEqual(404, status)
