"""GET /capacity/v1/providers: providers with all that belongs to them."""

from __future__ import annotations

from typing import Any

from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase
from tests.round_trips import RoundTrips

PATH = "/capacity/v1/providers"


class ProvidersTestCase(HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ctx = self.parts[0].context()

    def make(self, number: int, **options: Any) -> str:
        return factories.provider(
            self.ctx, uuid=f"00000000-0000-4000-8000-{number:012x}", **options).uuid

    def list_(self, query: str = "", status: int = 200, **options: Any) -> Any:
        response = self.ask("GET", f"{PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def uuids(self, query: str) -> list[str]:
        return [provider["uuid"] for provider in self.list_(query)["providers"]]


@databases.on_each_database
class TestProviders(ProvidersTestCase):
    def test_as_the_placement_api_shows_it(self) -> None:
        aggregates = sorted(factories.new_uuid() for _ in range(2))
        root = self.make(
            1, inventory={"VCPU": 8, "MEMORY_MB": 4096}, aggregates=aggregates,
            traits=["HW_CPU_X86_VMX", "HW_CPU_X86_SVM"])
        child = self.make(2, parent=root, inventory={"CUSTOM_GPU": 2})
        claim = self.ask("PUT", f"/allocations/{factories.new_uuid()}", {
            "allocations": {root: {"resources": {"VCPU": 3}}}, "project_id": "web",
            "user_id": "jane", "consumer_type": "INSTANCE", "consumer_generation": None})
        self.assertEqual(204, claim.status_int, claim.text)
        for provider in self.list_()["providers"]:
            path = f"/resource_providers/{provider['uuid']}"
            shown = self.ask("GET", path).json
            for name in ("uuid", "name", "generation", "root_provider_uuid",
                         "parent_provider_uuid"):
                self.assertEqual(shown[name], provider[name], name)
            used = {name: values.pop("used") for name, values in provider["inventories"].items()}
            self.assertEqual(self.ask("GET", f"{path}/usages").json["usages"], used)
            for name in ("inventories", "traits", "aggregates"):
                shown = self.ask("GET", f"{path}/{name}").json[name]
                self.assertEqual(
                    shown if name == "inventories" else sorted(shown), provider[name], name)
        self.assertEqual([root, child], self.uuids(""))

    def test_filters(self) -> None:
        """All of them have to match."""
        aggregate = factories.new_uuid()
        one, other = self.make(1), self.make(2, aggregates=[aggregate])
        child = self.make(3, parent=one, aggregates=[aggregate])
        for query, expected in (
            ("", [one, other, child]), (f"?in_tree={one}", [one, child]),
            (f"?in_tree={child}", [one, child]), (f"?member_of={aggregate}", [other, child]),
            (f"?member_of={aggregate}&in_tree={one}", [child]),
            (f"?member_of={factories.new_uuid()}", []), ("?member_of=%E2%98%83", []),
        ):
            self.assertEqual(expected, self.uuids(query), query)

    def test_pages(self) -> None:
        """Following the links lists every provider once."""
        uuids = [self.make(number, inventory={"VCPU": number}) for number in range(1, 8)]
        page, found = self.list_("?limit=3"), []
        while True:
            found += [(provider["uuid"], provider["inventories"]["VCPU"]["total"])
                      for provider in page["providers"]]
            if not page["links"]["next"]:
                break
            page = self.list_(page["links"]["next"].partition(PATH)[2])
        self.assertEqual([(uuid, number) for number, uuid in enumerate(uuids, 1)], found)
        self.assertEqual([], self.uuids(f"?marker={uuids[-1]}"))

    def test_bad_queries(self) -> None:
        self.list_(f"?in_tree={factories.new_uuid()}", status=404)
        for query in ("?limit=0", "?limit=x", "?in_tree=", "?member_of=", "?no=1"):
            self.list_(query, status=400)
        for text in ("%00", "%ED%A0%80", "x" * 255):
            for name, statuses in (("in_tree", (400, 404)), ("member_of", (200, 400)),
                                   ("marker", (200, 400))):
                answer = self.ask("GET", f"{PATH}?{name}={text}", version=None)
                self.assertIn(answer.status_int, statuses, (name, text))

    def test_round_trips(self) -> None:
        """A page is four statements in a transaction, however long it is."""
        for number in range(1, 6):
            self.make(number, inventory={"VCPU": 1}, traits=["HW_CPU_X86_VMX"])
        trips = RoundTrips(self.parts[0].database)
        self.assertLessEqual(trips.of(self.list_), 6)


class TestWhoMay(ProvidersTestCase):
    def test_administrators_and_services_only(self) -> None:
        for roles, status in (("admin", 200), ("service", 200), ("reader", 403), ("member", 403)):
            self.list_(status=status, token="jane:web", headers={"X-Roles": roles})
