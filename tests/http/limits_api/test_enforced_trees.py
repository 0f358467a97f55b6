"""Random trees in the application: its own decisions, and the enforcer library's."""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import fixtures

from placement_core import services
from placement_core.enforcer import Connection, Enforcer
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota.decisions import Decisions
from tests.http.placement_api.cases import PlacementTestCase
from tests.http.served import Served
from tests.unit.enforcer import rules
from tests.unit.enforcer.cloud import configuration, file

NAMES = ("class:MEMORY_MB", "class:VCPU")
DEFAULT = 6


class EnforcedTreeTestCase(PlacementTestCase):
    """One model, one domain with a tree of projects, and limits as far as they are let."""

    model: str
    depth = 5
    usages: dict[Any, dict[str, int]]

    def setUp(self) -> None:
        self.options = {("limits", "enforcement_model"): self.model}
        # The model registers its option itself, when the application is made.
        self.useFixture(fixtures.EnvironmentVariable(
            "OS_OVERCOMMIT__FACTOR", str(rules.OVERCOMMIT_PERCENT / 100)))
        super().setUp()
        self.services = services.build(self.conf)
        self.addCleanup(self.services.database.dispose)
        self.decisions = Decisions(
            UsageIndex(self.services.database), self.services.catalog, self.services.limits,
            self.services.model)

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
        """Expect the verdicts of the rule in words, of the service and of the library."""
        chance = random.Random(11)
        key = self.key()
        domain = self.tell("POST", "domains", {"domain": {"name": "d"}})["domain"]["id"]
        parents: dict[str, str | None] = {domain: None}
        for number in range(14):
            above = chance.choice([each for each in parents if len(
                rules.lineage(parents, each)) < self.depth])
            parents[self.project(f"p{number}", domain, above)] = above
        self.usages = {each: {name: chance.randint(1, 3) for name in NAMES}
                       for each in list(parents)[1:]}
        self.tell("POST", "registered_limits", {"registered_limits": [
            {**key, "resource_name": name, "default_limit": DEFAULT} for name in NAMES]})
        limits: dict[str, dict[str, int]] = {}
        for node in parents:
            whose = "domain_id" if node == domain else "project_id"
            for name in NAMES:
                # The domain is nearly full, so that its limit decides, too.
                value = 36 if node == domain else chance.choice((-1, 4, 9, 14, 20))
                item = {**key, whose: node, "resource_name": name, "resource_limit": value}
                if node != domain and chance.random() < 0.6:
                    continue
                if "limits" in self.tell("POST", "limits", {"limits": [item]}, accepted=(403,)):
                    limits.setdefault(node, {})[name] = value
        self.take()
        verdicts = set()
        for project in list(parents)[1:] * 5:
            deltas = {name: chance.choice((0, 0, 1, 3, 7)) for name in NAMES}
            expected = [
                excess for name in NAMES for excess in rules.excesses(
                    self.model, parents, DEFAULT, rules.of(name, limits),
                    rules.of(name, self.usages), project, name, deltas[name])]
            for enforcer in self.enforcers:
                self.assertEqual(expected, rules.found(enforcer, project, deltas))
            self.assertEqual(expected, self.decided(project, deltas, key))
            verdicts.update({one[1] == project for one in expected} or {None})
        # Claims that fit, and refusals for the project's own limit, and for those above it.
        self.assertEqual(3 if self.model != "flat" else 2, len(verdicts), verdicts)

    def take(self) -> None:
        """Allocate what the projects use."""
        host = self.provider("host", VCPU=1000, MEMORY_MB=1000)
        for project, used in self.usages.items():
            amounts = {name.removeprefix("class:"): amount for name, amount in used.items()}
            self.call("PUT", f"/allocations/{uuid.uuid4()}", self.claim(
                {host: amounts}, project=project), status=204)

    def decided(
        self, project: str, deltas: dict[str, int], key: dict[str, str]
    ) -> list[tuple[Any, ...]]:
        """Return what the service itself says."""
        found = self.decisions.decide(
            self.services.context(), project_id=project, deltas=deltas, **key)
        return [(one.resource_name, one.binding.node_id, one.binding.limit, one.usage, one.delta)
                for one in found.excesses]

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
