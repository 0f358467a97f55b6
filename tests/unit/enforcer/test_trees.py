"""Models over trees of projects: the same verdicts as from the whole tree."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

from placement_core.enforcer import Connection, Enforcer, OverLimitInfo, ProjectOverLimit
from placement_core.enforcer.limit import ProjectUsage
from tests import base
from tests.unit.enforcer import rules
from tests.unit.enforcer.cloud import EFFECTIVE, Cloud

NAMES = ("cores", "ram")


class TreeTestCase(base.TestCase):
    """A cloud with a tree; ``usages`` is what the projects use."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(Cloud())
        self.cloud.model = "tree"
        self.usages: dict[str, dict[str, int]] = {}
        self.counted: list[tuple[Any, ...]] = []
        self.connection = Connection(self.cloud.conf(source="capacity"))
        self.one_by_one = Enforcer(self.usage, connection=self.connection)
        self.at_once = Enforcer(
            self.usage, connection=self.connection, tree_usage_callback=self.tree_usage)

    def usage(self, project_id: str | None, names: Collection[str]) -> dict[str, int]:
        self.counted.append((project_id, list(names)))
        used = self.usages.get(project_id or "", {})
        return {name: used.get(name, 0) for name in names}

    def tree_usage(self, projects: Sequence[str], names: Collection[str]) -> dict[str, int]:
        self.counted.append((sorted(projects), list(names)))
        return {name: sum(self.usages.get(each, {}).get(name, 0) for each in projects)
                for name in names}


class TestTree(TreeTestCase):
    """d > (p > (c1, c2), q): what each bound counts, and what is told."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.parents = {"d": None, "p": "d", "c1": "p", "c2": "p", "q": "d"}
        self.cloud.registered = {"cores": 5, "ram": 50}
        self.cloud.limits = {"d": {"cores": 20}, "p": {"cores": 10, "ram": 40}}
        self.usages = {
            "p": {"cores": 1, "ram": 1}, "c1": {"cores": 3, "ram": 10},
            "c2": {"cores": 4, "ram": 20}, "q": {"cores": 5, "ram": 100}}

    def test_every_bound_that_breaks(self) -> None:
        """The project's own first, then upwards; whose they are is told."""
        for enforcer in (self.one_by_one, self.at_once):
            enforcer.enforce("c1", {"cores": 2, "ram": 9})
            error = self.assertRaises(
                ProjectOverLimit, enforcer.enforce, "c1", {"ram": 10, "cores": 8})
            self.assertEqual([
                OverLimitInfo("cores", 5, 3, 8, node_id="c1", scope="own"),
                OverLimitInfo("cores", 10, 8, 8, node_id="p", scope="subtree"),
                OverLimitInfo("cores", 20, 13, 8, node_id="d", scope="subtree"),
                OverLimitInfo("ram", 40, 31, 10, node_id="p", scope="subtree"),
            ], error.over_limit_info_list)
        self.assertIn("cores: the limit of p with what is below it is 10, 8 in use, 8 asked",
                      str(error))

    def test_each_is_counted_once(self) -> None:
        """However many bounds and resources there are."""
        self.one_by_one.enforce("c1", {"cores": 1, "ram": 1})
        self.assertEqual(["c1", "c2", "p", "q"], sorted(one for one, _ in self.counted))
        self.counted.clear()
        self.at_once.enforce("c1", {"cores": 1, "ram": 1})
        self.assertEqual(
            [("c1", ["cores", "ram"]), (["c1", "c2", "p"], ["cores", "ram"]),
             (["c1", "c2", "p", "q"], ["cores"])],
            [self.counted[0], *sorted(self.counted[1:])])

    def test_one_request(self) -> None:
        """For all bounds."""
        self.cloud.asked.clear()
        for _ in range(3):
            self.at_once.enforce("c1", {"cores": 1, "ram": 1})
        self.assertEqual([(EFFECTIVE, 200), (EFFECTIVE, 304), (EFFECTIVE, 304)],
                         [(one.path, one.status) for one in self.cloud.asked])

    def test_a_project_that_moved(self) -> None:
        """Other bounds from the next decision on."""
        self.cloud.limits["q"] = {"cores": 6}
        self.at_once.enforce("c1", {"cores": 2})
        self.cloud.parents["c1"] = "q"
        error = self.assertRaises(ProjectOverLimit, self.at_once.enforce, "c1", {"cores": 1})
        self.assertEqual([("q", 6, 8)], [
            (one.node_id, one.limit, one.current_usage) for one in error.over_limit_info_list])

    def test_a_tree_usage_that_is_missing(self) -> None:
        """Never taken for 0."""
        enforcer = Enforcer(self.usage, connection=self.connection,
                            tree_usage_callback=lambda projects, names: {"ram": 0})
        self.assertRaises(ValueError, enforcer.enforce, "c1", {"cores": 1})

    def test_reports(self) -> None:
        """What counts against the project's own bound: its subtree, where it was set."""
        for enforcer in (self.one_by_one, self.at_once):
            self.assertEqual(
                {"cores": ProjectUsage(10, 8), "ram": ProjectUsage(40, 31)},
                enforcer.calculate_usage("p", NAMES))
            self.assertEqual(
                {"cores": ProjectUsage(5, 3), "ram": ProjectUsage(50, 10)},
                enforcer.calculate_usage("c1", NAMES))
        self.assertEqual([("cores", 5)], self.at_once.get_project_limits("c1", ["cores"]))

    def test_what_belongs_to_nobody(self) -> None:
        """The registered limits, whatever the model."""
        self.at_once.enforce(None, {"cores": 5})
        self.assertRaises(ProjectOverLimit, self.at_once.enforce, None, {"cores": 6})


class TestRandomTrees(TreeTestCase):
    """Against a count of the whole tree for each decision."""

    def test_every_model(self) -> None:
        """Two ways to count usage, one verdict: that of the rule in words."""
        chance = random.Random(4)
        verdicts: dict[tuple[str, bool], int] = {}
        for turn in range(240):
            self.cloud.model = ("flat", "strict_two_level", "tree", "overcommit")[turn % 4]
            self._grow(chance)
            project = chance.choice([one for one, above in self.cloud.parents.items() if above])
            deltas = {name: chance.randrange(4) for name in NAMES}
            expected = [
                excess for name in NAMES for excess in rules.excesses(
                    self.cloud.model, self.cloud.parents, self.cloud.registered[name],
                    rules.of(name, self.cloud.limits), rules.of(name, self.usages), project,
                    name, deltas[name])]
            for enforcer in (self.one_by_one, self.at_once):
                found = rules.found(enforcer, project, deltas)
                self.assertEqual(expected, found, (self.cloud.model, self.cloud.parents))
            key = (self.cloud.model, bool(expected))
            verdicts[key] = verdicts.get(key, 0) + 1
        # Both verdicts of each model were drawn, and more than a few.
        self.assertEqual(8, len([each for each in verdicts.values() if each > 8]), verdicts)

    def _grow(self, chance: random.Random) -> None:
        self.cloud.parents = {"d": None}
        deepest = 2 if self.cloud.model == "strict_two_level" else 5
        for number in range(chance.randint(1, 9)):
            above = chance.choice([one for one in self.cloud.parents
                                   if len(rules.lineage(self.cloud.parents, one)) <= deepest])
            self.cloud.parents[f"p{number}"] = above
        self.cloud.registered = {"cores": chance.choice((-1, 0, 3, 8)), "ram": 6}
        self.cloud.limits = {
            node: {name: chance.choice((-1, 2, 6, 9, 15)) for name in NAMES
                   if chance.random() < 0.5}
            for node in self.cloud.parents if chance.random() < 0.6}
        self.usages = {node: {name: chance.randrange(4) for name in NAMES}
                       for node, above in self.cloud.parents.items() if above}
