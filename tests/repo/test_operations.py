"""The table of operations keeps its promises."""

from __future__ import annotations

import collections
import pathlib
import re

import yaml

from placement_core import app
from placement_core.http.placement_api import microversions, routes
from tests import base
from tests.conformance import test_gabbi

ROOT = pathlib.Path(__file__).parents[2] / "placement_core"

#: A version written as a number, such as ``(1, 14)``.
_VERSION = re.compile(r"\(1, \d+\)")


#: A role or a scope that code asks about by itself, instead of a rule of the policy.
_HARD_CODED = re.compile(r"\.roles\b|\.system_scope\b")
#: Who is calling, and the policy itself.
_MAY_ASK = ("identity.py", "policy.py")


class TestOperations(base.TestCase):
    """Policy, documentation and tests for each."""

    def test_each_has_a_rule(self) -> None:
        """Only the root and what an API declares is public; every other rule has a default."""
        known = {rule.name for rule in app.list_rules()}
        for api in app.APIS:
            for operation in api.operations:
                if operation.path in api.public_paths or (
                        not api.prefix and operation.path == "/"):
                    self.assertIsNone(operation.policy)
                else:
                    self.assertIn(operation.policy, known, operation)

    def test_each_rule_has_an_operation(self) -> None:
        """No default guards nothing."""
        used = {rule for api in app.APIS for operation in api.operations
                for rule in (operation.policy, *operation.also)}
        # The others are aliases.
        rules = {rule.name for rule in app.list_rules() if ":" in rule.name}
        self.assertEqual(set(), rules - used)

    def test_no_role_is_hard_coded(self) -> None:
        """Who may do what, a policy file can say otherwise."""
        for path in (ROOT / "http").rglob("*.py"):
            if path.name not in _MAY_ASK:
                self.assertIsNone(_HARD_CODED.search(path.read_text()), path)

    def test_each_is_tested(self) -> None:
        """The conformance suite calls every one that it knows."""
        called = collections.Counter(_called())
        for operation in routes.OPERATIONS:
            pattern = re.sub(r"\{\w+\}", "[^/?]+", operation.path) + r"/?(\?.*)?$"
            found = any(
                method == operation.method and re.match(pattern, path) for method, path in called
            )
            self.assertTrue(found, operation)

    def test_numbers_in_one_file(self) -> None:
        """Elsewhere, microversions have names."""
        for path in ROOT.rglob("*.py"):
            if path.name in ("microversions.py", "operations.py"):
                continue
            self.assertIsNone(_VERSION.search(path.read_text()), path)

    def test_the_whole_range(self) -> None:
        """1.0 to 1.39, none left out."""
        versions = [step.version for step in microversions.ALL]
        self.assertEqual([(1, minor) for minor in range(40)], versions)


def _called() -> list[tuple[str, str]]:
    """Return each method and URL in the conformance suite."""
    calls = []
    for path in test_gabbi.suite_path().glob("*.yaml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for key, value in test.items():
                if key.isupper():
                    calls.append((key, str(value)))
            if "url" in test:
                calls.append((test.get("method", "GET"), test["url"]))
    return calls
