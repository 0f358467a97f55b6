"""python-blazarclient: its Python API and its command line, against a served application."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import io
import json
import logging
import pathlib
import subprocess
import sys
from typing import Any

from blazarclient import client as blazar_client, exception as blazar_exception
from blazarclient.shell import BlazarShell
from keystoneauth1 import session as keystone_session, token_endpoint
from keystoneauth1.identity import v3

from tests import databases, serving
from tests.http.leases_api.cases import LeasesTestCase, date
from tests.http.served import Served

_SMALL = {"resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1024, "disk_gb": 10,
          "amount": 4, "affinity": "None", "resource_properties": ""}


def connected(url: str, token: str = "admin", roles: str = "admin") -> Any:
    """Return the client of somebody."""
    session = keystone_session.Session(
        auth=token_endpoint.Token(f"{url}/v1", token), additional_headers={"X-Roles": roles})
    return blazar_client.Client(1, session=session, service_type="reservation")


class BlazarTestCase(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.url = self.useFixture(Served(self.app)).url


class TestPython(BlazarTestCase):
    """The managers of ``blazarclient.client.Client``."""

    def setUp(self) -> None:
        super().setUp()
        self.client = connected(self.url)
        self.jane = connected(self.url, "jane:demo", "member")

    def failure(self, function: Any, *arguments: Any, **fields: Any) -> tuple[int, str]:
        """Return the status and the message of a refusal."""
        error = self.assertRaises(
            blazar_exception.BlazarClientException, function, *arguments, **fields)
        return error.kwargs["code"], str(error)

    def test_leases(self) -> None:
        self.host()
        made = self.jane.lease.create("a", date(1), date(2), [_SMALL], [])
        self.assertEqual(("a", "PENDING"), (made["name"], made["status"]))
        self.assertEqual(made, self.jane.lease.get(made["id"]))
        self.assertEqual([made["id"]], [each["id"] for each in self.jane.lease.list("name")])
        end = datetime.datetime.strptime(date(2), "%Y-%m-%d %H:%M")
        for fields, expected in (
            ({"prolong_for": "2d"}, 48), ({"reduce_by": "1d"}, 24), ({"end_date": date(4)}, 48),
            ({"end_date": date(2), "defer_by": "2h"}, 0), ({"advance_by": "1h"}, 0),
            ({"name": "b", "start_date": date(1)}, 0),
        ):
            changed = self.jane.lease.update(made["id"], **fields)
            self.assertEqual(end + datetime.timedelta(hours=expected),
                             datetime.datetime.fromisoformat(changed["end_date"]), fields)
        self.assertEqual(
            ("b", f"{date(1).replace(' ', 'T')}:00.000000"),
            (changed["name"], changed["start_date"]))
        reservation = changed["reservations"][0]["id"]
        changed = self.jane.lease.update(
            made["id"], reservations=[{"id": reservation, "amount": 5}])
        self.assertEqual(5, changed["reservations"][0]["amount"])
        self.jane.lease.delete(made["id"])
        self.assertEqual([], self.jane.lease.list())

    def test_refusals(self) -> None:
        """The client shows ``error_message``."""
        self.host()
        status, said = self.failure(
            self.jane.lease.create, "a", date(1), date(2), [{**_SMALL, "amount": 9}], [])
        self.assertEqual(409, status)
        self.assertIn("ERROR: 9 slots of 1 VCPU, 1024 MiB of memory", said)
        for code, function, *arguments in (
            (404, self.jane.lease.get, "x"), (404, self.jane.lease.delete, "x"),
            (403, self.jane.host.list), (404, self.client.host.create, "nowhere"),
            (400, self.jane.lease.create, "a", "x", date(2), [_SMALL], []),
        ):
            status, said = self.failure(function, *arguments)
            self.assertEqual(code, status)
            self.assertNotIn("{", said)

    def test_hosts(self) -> None:
        id_ = self.host("c1")
        self.client.host.delete(id_)
        made = self.client.host.create("c1", gpu="tesla")
        self.assertEqual(("c1", "tesla"), (made["hypervisor_hostname"], made["gpu"]))
        changed = self.client.host.update(made["id"], {"gpu": "volta", "ssd": "yes"})
        self.assertEqual(("volta", "yes"), (changed["gpu"], changed["ssd"]))
        self.assertNotIn("ssd", self.client.host.update(made["id"], {"ssd": None}))
        self.assertEqual(["c1"], [
            each["hypervisor_hostname"] for each in self.client.host.list("vcpus")])
        self.assertEqual(8, self.client.host.get(made["id"])["vcpus"])
        self.assertEqual(
            ["gpu"], [each["property"] for each in self.client.host.list_properties()
                      if each["property"] == "gpu"])
        self.assertEqual(
            (["volta"], False), tuple(self.client.host.get_property("gpu")[key]
                                      for key in ("property_values", "private")))
        self.assertIs(True, self.client.host.set_property("gpu", True)["private"])
        self.assertNotIn("gpu", [
            each["property"] for each in self.client.host.list_properties()])
        self.assertIn("gpu", [
            each["property"] for each in self.client.host.list_properties(all=True)])

    def test_allocations(self) -> None:
        id_ = self.host()
        lease = self.jane.lease.create("a", date(1), date(2), [_SMALL], [])
        entry = {"id": lease["reservations"][0]["id"], "lease_id": lease["id"],
                 "start_date": lease["start_date"], "end_date": lease["end_date"]}
        expected = {"resource_id": id_, "reservations": [entry] * 4}
        self.assertEqual(expected, self.client.allocation.get("os-hosts", id_))
        self.assertEqual([expected], self.client.allocation.list("os-hosts"))

    def test_through_the_catalog(self) -> None:
        """Who logs in finds the API, and its version, without being told where it is."""
        self.host()
        session = keystone_session.Session(auth=v3.Password(
            f"{self.url}/v3", username="admin", password="any", user_domain_id="default",
            project_name="admin", project_domain_id="default"))
        client = blazar_client.Client(1, session=session, service_type="reservation")
        self.assertEqual(["c1"], [
            each["hypervisor_hostname"] for each in client.host.list()])
        found = session.auth.get_endpoint_data(
            session, service_type="reservation", min_version="1", max_version="1.latest")
        self.assertEqual((f"{self.url}/v1", (1, 0)), (found.url, found.api_version))


class TestShell(BlazarTestCase):
    """``blazar …``, with a token that is believed, and no Keystone."""

    def arguments(self, *command: str) -> list[str]:
        return ["--os-auth-type", "admin_token", "--os-endpoint", f"{self.url}/v1",
                "--os-token", "admin", *command]

    def blazar(self, *command: str, succeeds: bool = True) -> str:
        """Run the command line in this process; return what it printed, or its complaint."""
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        output, complaint = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaint):
                code = BlazarShell().run(self.arguments(*command))
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
        self.assertEqual(succeeds, not code, f"{command}: {complaint.getvalue()}")
        return output.getvalue() if succeeds else complaint.getvalue()

    def read(self, *command: str) -> Any:
        """Run a command that prints JSON; return it."""
        return json.loads(self.blazar(*command, "-f", "json"))

    def test_hosts(self) -> None:
        self.admin_provider("c1")
        self.assertIn("Created a new host:", self.blazar(
            "host-create", "--extra", "gpu=tesla", "c1"))
        [listed] = self.read("host-list")
        self.assertEqual(("c1", 8, 16384, 200), tuple(
            listed[key] for key in ("hypervisor_hostname", "vcpus", "memory_mb", "local_gb")))
        for named in ("c1", listed["id"]):
            self.assertEqual("tesla", self.read("host-show", named)["gpu"])
        self.blazar("host-update", "--extra", "gpu=volta", "--extra", "ssd=yes", "c1")
        self.assertEqual("volta", self.read("host-show", "c1")["gpu"])
        self.blazar("host-unset", "--extra", "ssd", "c1")
        self.assertNotIn("ssd", self.read("host-show", "c1"))
        self.assertEqual(["gpu", "ssd"], sorted(
            each["property"] for each in self.read("host-property-list")))
        self.blazar("host-property-set", "--private", "ssd")
        self.assertEqual(["gpu"], [
            each["property"] for each in self.read("host-property-list", "--detail")])
        self.assertEqual({"gpu", "ssd"}, {
            each["property"] for each in self.read("host-property-list", "--all")})
        self.assertEqual(["volta"], self.read("host-property-show", "gpu")["property_values"])
        self.blazar("host-delete", "c1")
        self.assertEqual([], self.read("host-list"))

    def admin_provider(self, name: str) -> None:
        """Make what a host is made of."""
        self.v1("DELETE", f"/os-hosts/{self.host(name)}", token="admin", status=204)

    def test_leases(self) -> None:
        host = self.host("c1", gpu="tesla")
        self.assertIn("Created a new lease:", self.blazar(
            "lease-create", "--start-date", date(1), "--end-date", date(2), "--reservation",
            "resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=10,amount=4,"
            'affinity=True,resource_properties=["==","$gpu","tesla"]', "first"))
        self.blazar(
            "lease-create", "--start-date", date(2), "--end-date", date(3), "--before-end-date",
            date(2.5), "--physical-reservation", "min=1,max=2,before_end=snapshot", "second")
        self.assertEqual(["first", "second"], [
            each["name"] for each in self.read("lease-list", "--sort-by", "start_date")])
        shown = self.read("lease-show", "first")
        self.assertEqual("PENDING", shown["status"])
        reservation = json.loads(shown["reservations"])
        self.assertEqual((4, True), (reservation["amount"], reservation["affinity"]))

        self.blazar("lease-update", "--reservation",
                    f"id={reservation['id']},amount=5,affinity=None", "--name", "third", "first")
        reservation = json.loads(self.read("lease-show", "third")["reservations"])
        self.assertEqual((5, None), (reservation["amount"], reservation["affinity"]))
        self.assertIn("ERROR: ", self.blazar(
            "lease-update", "--prolong-for", "1h", "third", succeeds=False))
        for change, expected in (
            (("--reduce-by", "3h"), 2 - 3 / 24), (("--prolong-for", "60m"), 2 - 2 / 24),
            (("--end-date", date(1.5)), 1.5),
        ):
            self.blazar("lease-update", *change, "third")
            self.assertEqual(f"{date(expected).replace(' ', 'T')}:00.000000",
                             self.read("lease-show", "third")["end_date"])
        for change, expected in (
            (("--defer-by", "2h"), 1 + 2 / 24), (("--advance-by", "1h"), 1 + 1 / 24),
            (("--start-date", date(1)), 1),
        ):
            self.blazar("lease-update", *change, "third")
            self.assertEqual(f"{date(expected).replace(' ', 'T')}:00.000000",
                             self.read("lease-show", "third")["start_date"])

        # Rules of topology go where requirements go.
        self.blazar(
            "lease-create", "--start-date", date(5), "--end-date", date(6), "--reservation",
            "resource_type=virtual:instance,vcpus=1,memory_mb=1024,disk_gb=10,amount=2,"
            'affinity=None,resource_properties=["==","$within","property:gpu"]', "near")
        self.assertIn("no host is in a domain of it", self.blazar(
            "lease-create", "--start-date", date(5), "--end-date", date(6),
            "--physical-reservation",
            'min=1,max=1,resource_properties=["==","$pack_by","property:rack"]', "none",
            succeeds=False))
        self.blazar("lease-delete", "near")

        [allocations] = self.read("allocation-list", "host")
        self.assertEqual((host, 6), (allocations["resource_id"], len(allocations["reservations"])))
        for named in ("c1", host):
            found = self.read("allocation-show", "host", named, "--reservation-id",
                              reservation["id"])
            self.assertEqual(5, found["reservations"].count(reservation["id"]))

        self.assertIn("ERROR: 9 hosts were asked for", self.blazar(
            "lease-create", "--start-date", date(5), "--end-date", date(6),
            "--physical-reservation", "min=9,max=9", "no", succeeds=False))
        self.blazar("lease-delete", "third")
        self.blazar("lease-delete", "second")
        self.assertEqual([], self.read("lease-list"))

    def test_now(self) -> None:
        """Without dates: from now on, for a day."""
        self.host()
        self.blazar("lease-create", "--reservation",
                    "resource_type=physical:host,min=1,max=1", "a")
        self.assertEqual(["a"], [each["name"] for each in self.read("lease-list")])

    def test_as_a_process(self) -> None:
        """The program itself, once."""
        self.host()
        program = pathlib.Path(sys.executable).with_name("blazar")
        done = subprocess.run(
            [str(program), *self.arguments("host-list", "-f", "json")],
            capture_output=True, text=True)
        self.assertEqual((0, "c1"), (
            done.returncode, json.loads(done.stdout)[0]["hypervisor_hostname"]), done.stderr)


@databases.on_each_database
class TestTwoServers(LeasesTestCase):
    """Two processes on one database."""

    def test_the_last_slot(self) -> None:
        """Of sixteen who want it, whichever server they ask, one gets it."""
        host = self.host(vcpus=2)
        self.lease()
        connection = self.conf.placement_database.connection
        servers = [serving.Service(connection, by="gunicorn") for _ in range(2)]
        clients = [connected(self.useFixture(server).url) for server in servers]
        last = {**_SMALL, "amount": 1}

        def ask(number: int) -> str:
            try:
                clients[number % 2].lease.create(
                    f"lease{number}", date(1), date(2), [last], [])
            except blazar_exception.BlazarClientException as error:
                return str(error.kwargs["code"])
            return "made"

        for turn in range(2):
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(ask, range(16)))
            self.assertEqual(["409"] * 15 + ["made"], sorted(answers), turn)
            self.assertEqual({host: 2}, self.held())
            [made] = [each for each in clients[0].lease.list() if each["name"] != "a"]
            clients[1].lease.delete(made["id"])
