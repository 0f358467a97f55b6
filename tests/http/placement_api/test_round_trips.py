"""How often a request waits for the database, BEGIN and COMMIT counted.

What a request costs beyond this does not depend on a clock either: it is the
size of the answer.
"""

from unittest import mock

from placement_core import services
from placement_core.testing import factories
from tests import databases
from tests.http import base
from tests.round_trips import RoundTrips

_HOSTS = 12
_RESOURCES = {"VCPU": 1, "MEMORY_MB": 16, "DISK_GB": 1}
_CANDIDATES = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:16"


@databases.on_each_database
class TestRoundTrips(base.HttpTestCase):
    def setUp(self):
        with mock.patch.object(services, "build", side_effect=self._build(services.build)):
            super().setUp()
        self.trips = RoundTrips(self.database)
        self.hosts = [
            factories.provider(
                self.context(), name=f"host-{number}", traits=["HW_CPU_X86_AVX2"],
                aggregates=[factories.new_uuid()],
                inventory={"VCPU": 64, "MEMORY_MB": 6400, "DISK_GB": 640}).uuid
            for number in range(_HOSTS)]
        self.asked(200, "GET", _CANDIDATES)  # loads the index

    def _build(self, build):
        def kept(conf):
            parts = build(conf)
            self.database, self.context = parts.database, parts.context
            return parts
        return kept

    def asked(self, status, method, path, body=None):
        """Send a request; return how often it waited for the database."""
        answers = []
        count = self.trips.of(lambda: answers.append(self.ask(method, path, body)))
        self.assertEqual(status, answers[0].status_int, answers[0].text)
        return count

    def claim(self, host):
        return {
            "allocations": {host: {"resources": _RESOURCES}}, "project_id": "project",
            "user_id": "user", "consumer_generation": None, "consumer_type": "INSTANCE"}

    def test_searches_ask_one_question(self):
        for path in (
            _CANDIDATES, f"{_CANDIDATES}&limit=2",
            f"{_CANDIDATES}&required=HW_CPU_X86_AVX2&resources1=DISK_GB:1&group_policy=none",
            "/resource_providers", "/resource_providers?resources=VCPU:1",
            f"/resource_providers?name=host-{_HOSTS - 1}",
        ):
            self.assertEqual(1, self.asked(200, "GET", path), path)

    def test_reads_of_one_provider_are_one_question(self):
        path = f"/resource_providers/{self.hosts[0]}"
        for end in ("", "/inventories", "/inventories/VCPU", "/traits", "/aggregates"):
            self.assertEqual(1, self.asked(200, "GET", path + end), end)

    def test_usages_of_a_project_are_one_question(self):
        for host in self.hosts:
            self.asked(204, "PUT", f"/allocations/{factories.new_uuid()}", self.claim(host))
        self.assertEqual(1, self.asked(200, "GET", "/usages?project_id=project"))

    def test_a_change_costs_the_next_search_the_same_however_many_hosts(self):
        counts = set()
        for changed in (1, _HOSTS):
            for host in self.hosts[:changed]:
                self.asked(204, "PUT", f"/allocations/{factories.new_uuid()}", self.claim(host))
            counts.add(self.asked(200, "GET", _CANDIDATES))
        # The question, BEGIN, heads and changes (one on PostgreSQL), one load and COMMIT (MySQL's
        # BEGIN is not counted).
        self.assertEqual({6 if self.kind == "sqlite" else 5}, counts)

    def test_claims(self):
        claimed, deleted = [], []
        # The first of each of 8 counters of the project may take one statement more.
        for _ in range(9):
            path = f"/allocations/{factories.new_uuid()}"
            claimed.append(self.asked(204, "PUT", path, self.claim(self.hosts[0])))
            deleted.append(self.asked(204, "DELETE", path))
        # The consumer with what the claim names, all that is written, COMMIT. SQLite takes one by
        # one, such as the interval that a DELETE ends.
        self.assertEqual((10, 12) if self.kind == "sqlite" else (3, 3),
                         (min(claimed), min(deleted)))

    def test_many_claims_in_one_request(self):
        counts = [
            self.asked(204, "POST", "/allocations", {
                factories.new_uuid(): self.claim(host) for host in self.hosts[:10]})
            for _ in range(9)]
        # PostgreSQL and MySQL take all consumers at once, SQLite one by one.
        self.assertEqual(19 if self.kind == "sqlite" else 3, min(counts))
