"""What ``[placement]`` changes about allocation candidates."""

from __future__ import annotations

from placement_core.testing import factories
from tests.http import base
from tests.http.placement_api.cases import PlacementTestCase


class CandidatesTestCase(base.HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.roots = {}
        for number in range(2):
            root = self.provider(f"host{number}")
            for child in range(3):
                self.roots[self.provider(f"host{number}-{child}", parent=root)] = root

    def provider(self, name: str, parent: str | None = None) -> str:
        made = self.ask("POST", "/resource_providers", {
            "name": name, **({"parent_provider_uuid": parent} if parent else {})}).json
        if parent:
            self.ask("PUT", f"/resource_providers/{made['uuid']}/inventories", {
                "resource_provider_generation": 0, "inventories": {"VGPU": {"total": 1}}})
        return made["uuid"]

    def candidates(self, query: str = "resources=VGPU:1") -> list[str]:
        """Return the providers of the answers, in their order."""
        answer = self.ask("GET", f"/allocation_candidates?{query}").json
        return [next(iter(found["allocations"])) for found in answer["allocation_requests"]]


class TestUnlimited(CandidatesTestCase):
    def test_all_and_always_the_same(self) -> None:
        first = self.candidates()
        self.assertEqual(set(self.roots), set(first))
        self.assertEqual(first, self.candidates())


class TestDepthFirst(CandidatesTestCase):
    options = {("placement", "max_allocation_candidates"): 2}

    def test_from_one_tree(self) -> None:
        found = self.candidates()
        self.assertEqual(2, len(found))
        self.assertEqual(1, len({self.roots[provider] for provider in found}))


class TestBreadthFirst(CandidatesTestCase):
    options = {
        ("placement", "max_allocation_candidates"): 2,
        ("placement", "allocation_candidates_generation_strategy"): "breadth-first",
    }

    def test_from_each_tree(self) -> None:
        found = self.candidates()
        self.assertEqual(2, len({self.roots[provider] for provider in found}))


class TestRandom(CandidatesTestCase):
    options = {("placement", "randomize_allocation_candidates"): True}

    def test_a_sample(self) -> None:
        samples = {self.candidates("resources=VGPU:1&limit=1")[0] for _ in range(60)}
        self.assertGreater(len(samples), 2)


class OrderTestCase(base.HttpTestCase):
    """Hosts with some free cores each, and a request with a limit."""

    def setUp(self) -> None:
        super().setUp()
        self.hosts = {}
        for cores in (4, 16, 2, 8):
            made = self.ask("POST", "/resource_providers", {"name": f"host{cores}"}).json
            self.ask("PUT", f"/resource_providers/{made['uuid']}/inventories", {
                "resource_provider_generation": 0, "inventories": {"VCPU": {"total": cores}}})
            self.hosts[made["uuid"]] = cores

    def cores(self, query: str) -> list[int]:
        """Return the free cores of the candidates' hosts, in the order of the answer."""
        answer = self.ask("GET", f"/allocation_candidates?{query}").json
        return [self.hosts[next(iter(found["allocations"]))]
                for found in answer["allocation_requests"]]


class TestRotate(OrderTestCase):
    def test_it_is_the_default(self) -> None:
        self.assertEqual([4, 16, 2, 8], self.cores("resources=VCPU:1"))
        self.assertEqual([4, 16], self.cores("resources=VCPU:1&limit=2"))

    def test_the_same_hosts_come_first_each_time(self) -> None:
        """As long as they have room, whatever they have left of it."""
        (first,) = [uuid for uuid, cores in self.hosts.items() if cores == 4]
        for number in range(1, 5):
            self.assertEqual([4, 16], self.cores("resources=VCPU:1&limit=2"))
            self.ask("PUT", f"/allocations/00000000-0000-4000-8000-00000000000{number}", {
                "allocations": {first: {"resources": {"VCPU": 1}}}, "project_id": "p",
                "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"})
        self.assertEqual([16, 2], self.cores("resources=VCPU:1&limit=2"))


class TestRotateAtRandom(OrderTestCase):
    options = {("placement", "randomize_allocation_candidates"): True}

    def test_all_get_their_turn(self) -> None:
        firsts = {self.cores("resources=VCPU:1&limit=1")[0] for _ in range(200)}
        self.assertEqual({4, 16, 2, 8}, firsts)


class TestPack(OrderTestCase):
    options = {("placement", "candidate_order"): "pack"}

    def test_the_fullest_first(self) -> None:
        self.assertEqual([2, 4, 8, 16], self.cores("resources=VCPU:1"))
        self.assertEqual([4, 8], self.cores("resources=VCPU:3&limit=2"))

    def test_granular_groups_count(self) -> None:
        self.assertEqual([4], self.cores(
            "resources1=VCPU:1&resources2=VCPU:2&group_policy=none&limit=1"))

    def test_it_follows_every_claim(self) -> None:
        (host,) = [uuid for uuid, cores in self.hosts.items() if cores == 16]
        self.ask("PUT", "/allocations/00000000-0000-4000-8000-000000000001", {
            "allocations": {host: {"resources": {"VCPU": 15}}}, "project_id": "p",
            "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"})
        self.assertEqual([16], self.cores("resources=VCPU:1&limit=1"))


class TestSpread(OrderTestCase):
    options = {("placement", "candidate_order"): "spread"}

    def test_the_emptiest_first(self) -> None:
        self.assertEqual([16, 8], self.cores("resources=VCPU:1&limit=2"))


class TestLeastStranded(PlacementTestCase):
    """One request takes a different part of the usable room of each host."""

    options = {("placement", "candidate_order"): "least_stranded",
               ("least_stranded", "shape"): ["VCPU:4,MEMORY_MB:8192"]}

    def setUp(self) -> None:
        super().setUp()
        self.hosts = {name: self.provider(name, VCPU=vcpus, MEMORY_MB=memory_mb)
                      for name, vcpus, memory_mb in (
                          ("small", 4, 8192), ("even", 8, 16384), ("short", 16, 12288),
                          ("useless", 16, 4096))}

    def find(self, more: str = "") -> list[str]:
        """Return the names of the candidates' hosts, in the order of the answer."""
        names = {uuid: name for name, uuid in self.hosts.items()}
        answer = self.call("GET", "/allocation_candidates?resources=VCPU:2,MEMORY_MB:2048" + more,
                           status=200).json
        return [names[next(iter(each["allocations"]))] for each in answer["allocation_requests"]]

    def put(self, host: str, vcpus: int, memory_mb: int) -> str:
        """Claim by a new consumer; return it."""
        consumer = factories.new_uuid()
        self.call("PUT", f"/allocations/{consumer}", self.claim({
            self.hosts[host]: {"VCPU": vcpus, "MEMORY_MB": memory_mb}}), status=204)
        return consumer

    def test_the_order_follows_the_room(self) -> None:
        """It is none of the other orders, before and after claims."""
        # So many shapes less fit: 0 (none did before), 0.25 of 1.5, 0.5 of 2, 1 of 1.
        self.assertEqual(["useless", "short", "even", "small"], self.find())
        self.assertEqual(["useless", "short"], self.find("&limit=2"))
        # No shape fits into small any more; short has room for 1, and for none afterwards.
        self.put("small", 1, 1024)
        consumer = self.put("short", 1, 4096)
        self.assertEqual(["small", "useless", "even", "short"], self.find())
        self.assertEqual(["small", "useless", "even"], self.find("&limit=3"))
        self.call("DELETE", f"/allocations/{consumer}", status=204)
        self.assertEqual(["small", "useless", "short", "even"], self.find())
        self.put("useless", 1, 3072)
        self.assertEqual(["small", "short", "even"], self.find())


class TestSpreadAtRandom(OrderTestCase):
    options = {("placement", "candidate_order"): "spread",
               ("placement", "randomize_allocation_candidates"): True}

    def test_the_order_is_kept(self) -> None:
        """Only hosts of equal rank are in random order."""
        for _ in range(20):
            self.assertEqual([16, 8, 4], self.cores("resources=VCPU:1&limit=3"))
