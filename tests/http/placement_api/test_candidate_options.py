"""What ``[placement]`` changes about allocation candidates."""

from __future__ import annotations

from tests.http import base


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
