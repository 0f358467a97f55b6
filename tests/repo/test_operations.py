"""What must be true of every route that the service has."""

from __future__ import annotations

import pathlib
import re

from placement_core.http import policy
from placement_core.http.placement_api import policies
from placement_core.http.placement_api.api import API
from tests import base

_ROOT = pathlib.Path(__file__).parents[2]
_PUBLIC = {"/"}


class TestOperations(base.TestCase):
    def test_only_the_root_is_public(self) -> None:
        public = {op.path for op in API.operations if op.policy is None}
        self.assertEqual(_PUBLIC, public)

    def test_rules_and_routes_belong_together(self) -> None:
        used = {op.policy for op in API.operations} - {None}
        self.assertEqual({rule.name for rule in policies.RULES}, used)

    def test_rules_name_a_route_they_guard(self) -> None:
        guarded = {(op.method, re.sub(r"{\w+}", "{}", op.path)): op.policy
                   for op in API.operations}
        for rule in policies.RULES:
            for named in rule.operations:
                route = named["method"], re.sub(r"{\w+}", "{}", named["path"])
                self.assertEqual(rule.name, guarded.get(route), route)

    def test_every_rule_is_for_projects(self) -> None:
        for rule in policy.list_rules():
            self.assertEqual(["project"], rule.scope_types, rule.name)
            self.assertTrue(rule.description)

    def test_bodies_start_with_their_route(self) -> None:
        for op in API.operations:
            for ladder in (op.body, op.query):
                if ladder is not None:
                    self.assertLessEqual(min(ladder.rungs), op.since, op)

    def test_views_are_documented_by_their_route(self) -> None:
        for op in API.operations:
            self.assertIn(op.method, ("GET", "POST", "PUT", "DELETE"))
            self.assertTrue(op.path == "/" or not op.path.endswith("/"))


class TestVersionNumbers(base.TestCase):
    """Version numbers stand in one file; everything else uses their names."""

    def test_nowhere_else(self) -> None:
        number = re.compile(r"\(1, ?\d+\)")
        folder = _ROOT / "placement_core" / "http" / "placement_api"
        for path in folder.rglob("*.py"):
            if path.name != "microversions.py":
                self.assertIsNone(number.search(path.read_text()), path)
