"""Random trees in the application, and the enforcer library above it."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

import fixtures

from placement_core.enforcer import Connection, Enforcer
from tests.http import base
from tests.http.served import Served
from tests.unit.enforcer import rules
from tests.unit.enforcer.cloud import configuration, file

NAMES = ("cores", "ram")
DEFAULT = 6


class EnforcedTreeTestCase(base.HttpTestCase):
    """One model, one domain with a tree of projects, and limits as far as they are let."""

    model: str
    depth = 5

    def setUp(self) -> None:
        self.options = {("limits", "enforcement_model"): self.model}
        # The model registers its option itself, when the application is made.
        self.useFixture(fixtures.EnvironmentVariable(
            "OS_OVERCOMMIT__FACTOR", str(rules.OVERCOMMIT_PERCENT / 100)))
        super().setUp()

    def tell(self, method: str, path: str, body: Any, accepted: Collection[int] = ()) -> Any:
        response = self.ask(method, f"/v3/{path}", body, version=None)
        if response.status_int not in accepted:
            self.assertLess(response.status_int, 300, response.body)
        return response.json

    def usage(self, project: str | None, names: Collection[str]) -> dict[str, int]:
        return {name: self.usages[project][name] for name in names}

    def tree_usage(self, projects: Sequence[str], names: Collection[str]) -> dict[str, int]:
        return {name: sum(self.usages[each][name] for each in projects) for name in names}

    def check(self) -> None:
        """Expect the verdicts of the rule in words, for each project."""
        chance = random.Random(11)
        key = self.key()
        domain = self.tell("POST", "domains", {"domain": {"name": "d"}})["domain"]["id"]
        parents: dict[str, str | None] = {domain: None}
        for number in range(14):
            above = chance.choice([each for each in parents if len(
                rules.lineage(parents, each)) < self.depth])
            parents[self.project(f"p{number}", domain, above)] = above
        self.tell("POST", "registered_limits", {"registered_limits": [
            {**key, "resource_name": name, "default_limit": DEFAULT} for name in NAMES]})
        limits: dict[str, dict[str, int]] = {}
        for node in parents:
            whose = "domain_id" if node == domain else "project_id"
            for name in NAMES:
                value = chance.choice((-1, 3, 5, 9, 14, 20))
                if chance.random() < 0.6 and "limits" in self.tell("POST", "limits", {
                        "limits": [{**key, whose: node, "resource_name": name,
                                    "resource_limit": value}]}, accepted=(403,)):
                    limits.setdefault(node, {})[name] = value
        verdicts = set()
        for project in list(parents)[1:] * 3:
            self.usages = {each: {name: chance.randrange(4) for name in NAMES}
                           for each in parents}
            deltas = {name: chance.randrange(4) for name in NAMES}
            expected = [
                excess for name in NAMES for excess in rules.excesses(
                    self.model, parents, DEFAULT, rules.of(name, limits),
                    rules.of(name, self.usages), project, name, deltas[name])]
            for enforcer in self.enforcers:
                self.assertEqual(expected, rules.found(enforcer, project, deltas))
            verdicts.update({one[1] == project for one in expected} or {None})
        # Claims that fit, and refusals for the project's own limit, and for those above it.
        self.assertEqual(3 if self.model != "flat" else 2, len(verdicts))

    def key(self) -> dict[str, str]:
        """Make a service with an endpoint, and enforcers for it; return what limits refer to."""
        region = self.tell("POST", "regions", {"region": {"id": "here"}})["region"]["id"]
        service = self.tell("POST", "services", {"service": {"type": "compute"}})["service"]["id"]
        endpoint = self.tell("POST", "endpoints", {"endpoint": {
            "service_id": service, "region_id": region, "interface": "public",
            "url": "http://nova"}})["endpoint"]["id"]
        url = self.useFixture(Served(self.app)).url
        connection = Connection(configuration(file(
            self, auth_type="admin_token", endpoint=url, token="admin", endpoint_id=endpoint)))
        self.usages: dict[Any, dict[str, int]] = {}
        self.enforcers = [
            Enforcer(self.usage, connection=connection),
            Enforcer(self.usage, connection=connection, tree_usage_callback=self.tree_usage)]
        return {"service_id": service, "region_id": region}

    def project(self, name: str, domain: str, above: str) -> str:
        return self.tell("POST", "projects", {"project": {
            "name": name, "domain_id": domain,
            **({} if above == domain else {"parent_id": above})}})["project"]["id"]


class TestFlat(EnforcedTreeTestCase):
    """Trees do not matter."""

    model = "flat"

    def test_verdicts(self) -> None:
        """As the rule says."""
        self.check()


class TestStrictTwoLevel(EnforcedTreeTestCase):
    """A domain, its projects and theirs."""

    model = "strict_two_level"
    depth = 3

    def test_verdicts(self) -> None:
        """As the rule says."""
        self.check()


class TestTree(EnforcedTreeTestCase):
    """Any depth."""

    model = "tree"

    def test_verdicts(self) -> None:
        """As the rule says."""
        self.check()


class TestOvercommit(EnforcedTreeTestCase):
    """Any depth, and more than there is."""

    model = "overcommit"

    def test_verdicts(self) -> None:
        """As the rule says."""
        self.check()
