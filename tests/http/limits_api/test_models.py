"""The enforcement models: which limits fit a tree, and what clients are told."""

from __future__ import annotations

from tests import databases
from tests.http.limits_api.cases import LimitsTestCase


class TestFlatModel(LimitsTestCase):
    def test_model(self) -> None:
        found = self.v3("GET", "/limits/model", status=200).json
        self.assertEqual({"model"}, set(found))
        self.assertEqual({"name", "description"}, set(found["model"]))
        self.assertEqual("flat", found["model"]["name"])

    def test_any_value_anywhere(self) -> None:
        self.registered()
        self.limit(None, 1, domain_id=self.domain)
        self.limit(self.top, 50)
        self.limit(self.middle, -1)


@databases.on_each_database
class TestStrictTwoLevel(LimitsTestCase):
    options = {("limits", "enforcement_model"): "strict_two_level"}

    def setUp(self) -> None:
        super().setUp()
        self.registered()

    def refused_limit(self, project: str, value: int) -> None:
        self.refused(403, "doesn't satisfy current hierarchy model", "POST", "/limits",
                     {"limits": [self.item(project, value)]})

    def test_model(self) -> None:
        self.assertEqual(
            "strict_two_level", self.v3("GET", "/limits/model").json["model"]["name"])

    def test_the_default_bounds_where_no_limit_is_above(self) -> None:
        self.refused_limit(self.top, 11)
        self.limit(self.top, 10)

    def test_b4_a_parent_of_zero(self) -> None:
        self.limit(None, 0, domain_id=self.domain)
        self.refused_limit(self.top, 7)
        self.limit(self.top, 0)

    def test_b5_a_parent_without_a_bound(self) -> None:
        made = self.limit(None, -1, domain_id=self.domain)
        self.limit(self.top, 7)
        self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": 20}}, status=200)
        self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": -1}}, status=200)

    def test_b6_a_child_without_a_bound(self) -> None:
        self.limit(None, 10, domain_id=self.domain)
        self.refused_limit(self.top, -1)

    def test_b7_the_parent_project_counts(self) -> None:
        self.limit(self.top, 5)
        self.refused_limit(self.middle, 8)
        self.limit(self.middle, 5)

    def test_the_refusal_names_the_project_it_clashes_with(self) -> None:
        self.limit(self.top, 5)
        self.refused(403, self.top, "POST", "/limits", {"limits": [self.item(self.middle, 8)]})

    def test_a_parent_in_the_same_body(self) -> None:
        items = [self.item(self.top, 20), self.item(None, 30, domain_id=self.domain)]
        self.refused(403, "", "POST", "/limits", {"limits": [self.item(self.side, 31), *items]})
        self.assertEqual([], self.listed())
        self.v3("POST", "/limits", {"limits": items}, status=201)

    def test_lowering_a_parent(self) -> None:
        made = self.limit(self.top, 8)
        child = self.limit(self.middle, 6)
        path, lower = f"/limits/{made['id']}", {"limit": {"resource_limit": 5}}
        self.refused(403, self.middle, "PATCH", path, lower)
        self.v3("PATCH", f"/limits/{child['id']}", lower, status=200)
        self.v3("PATCH", path, lower, status=200)

    def test_children_together_may_exceed(self) -> None:
        self.limit(None, 10, domain_id=self.domain)
        self.limit(self.top, 10)
        self.limit(self.side, 10)

    def test_a_move_keeps_the_tree_whole(self) -> None:
        self.limit(None, 30, domain_id=self.domain)
        self.limit(self.top, 20)
        self.limit(self.middle, 8)
        self.limit(self.side, 5)
        path = f"/projects/{self.middle}"
        self.refused(403, "hierarchy", "PATCH", path, {"project": {"parent_id": self.side}})
        shown = self.v3("GET", path).json["project"]
        self.assertEqual(self.top, shown["parent_id"])
        self.v3("PATCH", path, {"project": {"parent_id": None}}, status=200)

    def test_too_deep(self) -> None:
        deeper = {"project": {
            "name": "deep", "domain_id": self.domain, "parent_id": self.middle}}
        self.refused(403, "Max hierarchy depth reached", "POST", "/projects", deeper)


class TestAdvertised(LimitsTestCase):
    options = {("limits", "enforcement_model"): "tree", ("limits", "advertised_model"): "flat"}

    def test_clients_hear_of_another_model(self) -> None:
        """B13: what oslo.limit cannot read, it need not be told."""
        self.assertEqual("flat", self.v3("GET", "/limits/model").json["model"]["name"])
        self.registered()
        self.limit(self.top, 5)
        self.refused(403, "hierarchy", "POST", "/limits", {"limits": [self.item(self.middle, 6)]})
