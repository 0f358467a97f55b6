"""GET /capacity/v1/consumers: what is listed, in which order, and to whom."""

from __future__ import annotations

from typing import Any

from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase
from tests.round_trips import RoundTrips

PATH = "/capacity/v1/consumers"


class ConsumersTestCase(HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ctx = self.parts[0].context()
        self.hosts = [factories.provider(self.ctx, name, inventory={
            "VCPU": 8, "MEMORY_MB": 8192}).uuid for name in ("c1", "c2")]

    def claim(self, number: int, *hosts: str, **fields: Any) -> str:
        uuid = f"00000000-0000-4000-8000-{number:012x}"
        response = self.ask("PUT", f"/allocations/{uuid}", {
            "allocations": {host: {"resources": {"VCPU": 1, "MEMORY_MB": 512}} for host in hosts},
            "project_id": "web", "user_id": "jane", "consumer_type": "INSTANCE",
            "consumer_generation": None, **fields})
        self.assertEqual(204, response.status_int, response.text)
        return uuid

    def list_(self, query: str = "", status: int = 200, **options: Any) -> Any:
        response = self.ask("GET", f"{PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def uuids(self, query: str) -> list[str]:
        return [consumer["uuid"] for consumer in self.list_(query)["consumers"]]


@databases.on_each_database
class TestConsumers(ConsumersTestCase):
    def test_what_a_consumer_looks_like(self) -> None:
        uuid = self.claim(1, *self.hosts)
        (consumer,) = self.list_()["consumers"]
        self.assertEqual(consumer.pop("created_at")[:2], "20")
        self.assertIsNone(consumer.pop("updated_at"))
        shown = self.ask("GET", f"/allocations/{uuid}").json
        self.assertEqual({
            "uuid": uuid, "consumer_type": "INSTANCE", "consumer_generation": 1,
            "project_id": "web", "user_id": "jane",
            "allocations": {host: {"resources": shown["allocations"][host]["resources"]}
                            for host in self.hosts}}, consumer)

    def test_filters(self) -> None:
        """All of them have to match."""
        one = self.claim(1, self.hosts[0])
        two = self.claim(2, self.hosts[1], user_id="bob")
        three = self.claim(3, self.hosts[0], project_id="data", consumer_type="MIGRATION")
        for query, expected in (
            ("", [one, two, three]), ("?project_id=web", [one, two]), ("?user_id=bob", [two]),
            ("?project_id=web&user_id=jane", [one]), ("?consumer_type=MIGRATION", [three]),
            ("?consumer_type=unknown", []), (f"?resource_provider={self.hosts[0]}", [one, three]),
            (f"?resource_provider={self.hosts[0]}&project_id=data", [three]),
            ("?project_id=nobody", []), ("?consumer_type=NONE", []), ("?user_id=%E2%98%83", []),
        ):
            self.assertEqual(expected, self.uuids(query), query)

    def test_consumers_without_a_type(self) -> None:
        """Clients below microversion 1.38 name none."""
        uuid = f"00000000-0000-4000-8000-{1:012x}"
        response = self.ask("PUT", f"/allocations/{uuid}", {
            "allocations": {self.hosts[0]: {"resources": {"VCPU": 1}}}, "project_id": "web",
            "user_id": "jane", "consumer_generation": None}, version="1.37")
        self.assertEqual(204, response.status_int, response.text)
        self.assertEqual([uuid], self.uuids("?consumer_type=unknown"))
        self.assertEqual("unknown", self.list_()["consumers"][0]["consumer_type"])

    def test_pages(self) -> None:
        """Following the links lists every consumer once, also while others come and go."""
        uuids = [self.claim(number, self.hosts[number % 2]) for number in range(2, 9)]
        page = self.list_("?limit=3&project_id=web")
        found = [consumer["uuid"] for consumer in page["consumers"]]
        self.claim(1, self.hosts[0])
        self.ask("DELETE", f"/allocations/{uuids[2]}")
        while page["links"]["next"]:
            query = page["links"]["next"].partition(PATH)[2]
            page = self.list_(query)
            self.assertLessEqual(len(page["consumers"]), 3)
            found += [consumer["uuid"] for consumer in page["consumers"]]
        self.assertEqual(uuids, found)
        self.assertEqual([], self.uuids(f"?marker={uuids[-1]}"))

    def test_bad_queries(self) -> None:
        self.list_(f"?resource_provider={factories.new_uuid()}", status=404)
        for query in ("?limit=0", "?limit=-1", "?limit=x", "?project_id=", "?no=1",
                      "?consumer_type="):
            self.list_(query, status=400)
        for text in ("%00", "%ED%A0%80", "x" * 255):
            self.assertIn(self.ask("GET", f"{PATH}?project_id={text}", version=None).status_int,
                          (200, 400))
            self.ask("GET", f"{PATH}?marker={text}", version=None)

    def test_round_trips(self) -> None:
        """A page is two statements in a transaction, however long it is."""
        for number in range(5):
            self.claim(number + 1, *self.hosts)
        trips = RoundTrips(self.parts[0].database)
        self.assertLessEqual(trips.of(self.list_), 4)


class TestWhoMay(ConsumersTestCase):
    def test_administrators_and_services_only(self) -> None:
        """The answer names providers."""
        for roles, status in (("admin", 200), ("service", 200), ("reader", 403), ("member", 403)):
            self.list_(status=status, token="jane:web", headers={"X-Roles": roles})
