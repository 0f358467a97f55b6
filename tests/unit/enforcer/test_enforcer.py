"""``Enforcer``: arguments, verdicts, and what is asked for them."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Mapping
from typing import Any

from placement_core.enforcer import (
    Connection,
    Enforcer,
    OverLimitInfo,
    ProjectOverLimit,
    connection as connections,
)
from placement_core.enforcer.limit import ProjectUsage
from tests import base
from tests.unit.enforcer.cloud import EFFECTIVE, Cloud


class EnforcerTestCase(base.TestCase):
    """One cloud and one enforcer; ``usages`` is what the service counts."""

    capacity = True

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(Cloud(capacity=self.capacity))
        self.usages: dict[str | None, dict[str, int]] = {}
        self.counted: list[tuple[Any, ...]] = []
        self.enforcer = self.enforcer_with()

    def enforcer_with(self, **options: Any) -> Enforcer:
        """Return an enforcer of its own process, so to say."""
        connection = Connection(self.cloud.conf(**options))
        self.cloud.asked.clear()
        return Enforcer(self.usage, connection=connection)

    def usage(self, project_id: str | None, names: Any) -> dict[str, int]:
        self.counted.append((project_id, list(names)))
        used = self.usages.get(project_id, {})
        return {name: used.get(name, 0) for name in names}

    def refusal(
        self, project_id: str | None, deltas: Mapping[str, int], enforcer: Enforcer | None = None
    ) -> list[tuple[Any, ...]]:
        """Return (resource, limit, usage, delta) of each exceeded limit."""
        error = self.assertRaises(
            ProjectOverLimit, (enforcer or self.enforcer).enforce, project_id, deltas)
        self.assertEqual(project_id, error.project_id)
        return [(one.resource_name, one.limit, one.current_usage, one.delta)
                for one in error.over_limit_info_list]


class TestFlat(EnforcerTestCase):
    """The flat model, placement_core answering."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.registered = {"cores": 20, "ram": 100, "gpus": 0, "disks": -1}
        self.cloud.limits = {"p": {"cores": 10}}

    def test_up_to_the_limit(self) -> None:
        """The limit itself fits, one more does not."""
        self.usages = {"p": {"cores": 8}}
        self.enforcer.enforce("p", {"cores": 2})
        self.assertEqual([("cores", 10, 8, 3)], self.refusal("p", {"cores": 3}))

    def test_the_default_counts_without_a_limit(self) -> None:
        """Another project may use what is registered."""
        self.enforcer.enforce("q", {"cores": 20})
        self.assertEqual([("cores", 20, 0, 21)], self.refusal("q", {"cores": 21}))

    def test_all_in_one_refusal(self) -> None:
        """Sorted by name; what is not registered has a limit of 0, and 0 is zero."""
        self.assertEqual(
            [("cores", 10, 0, 11), ("gpus", 0, 0, 1), ("tapes", 0, 0, 1)],
            self.refusal("p", {"tapes": 1, "gpus": 1, "ram": 100, "cores": 11}))
        self.enforcer.enforce("p", {"tapes": 0, "gpus": 0})

    def test_unlimited(self) -> None:
        """-1 is no bound, registered or set for a project."""
        self.cloud.limits["p"]["ram"] = -1
        self.enforcer.enforce("p", {"disks": 10**12, "ram": 10**12})

    def test_zero_asks_whether_it_is_exceeded(self) -> None:
        """Using all is not too much."""
        self.usages = {"p": {"cores": 10}}
        self.enforcer.enforce("p", {"cores": 0})
        self.usages = {"p": {"cores": 11}}
        self.assertEqual([("cores", 10, 11, 0)], self.refusal("p", {"cores": 0}))

    def test_what_shrinks_is_not_refused(self) -> None:
        """However much is used."""
        self.usages = {"p": {"cores": 15, "ram": 200}}
        self.enforcer.enforce("p", {"cores": -1})
        self.assertEqual(
            [("ram", 100, 200, 1)], self.refusal("p", {"cores": -1, "ram": 1}))

    def test_no_project(self) -> None:
        """The registered limits bind what belongs to nobody."""
        self.usages = {None: {"cores": 20}}
        self.enforcer.enforce(None, {"cores": 0})
        error = self.assertRaises(ProjectOverLimit, self.enforcer.enforce, None, {"cores": 1})
        self.assertEqual(
            [OverLimitInfo("cores", 20, 20, 1, node_id=None)], error.over_limit_info_list)

    def test_the_callback(self) -> None:
        """Called once, after the limits were read, with every name in order."""
        self.enforcer.enforce("p", {"ram": 1, "disks": 1, "cores": 1})
        self.assertEqual([("p", ["cores", "disks", "ram"])], self.counted)

    def test_a_usage_that_is_missing(self) -> None:
        """Never taken for 0, also where nothing is bound."""
        enforcer = Enforcer(lambda project, names: {"cores": 1}, connection=(
            self.enforcer._connection))
        error = self.assertRaises(ValueError, enforcer.enforce, "p", {"cores": 1, "disks": 1})
        self.assertIn("disks", str(error))
        self.assertRaises(ValueError, enforcer.enforce, "p", {"disks": 1})
        self.assertRaises(ValueError, enforcer.calculate_usage, "p", ["cores", "disks"])

    def test_senseless_arguments(self) -> None:
        """ValueError, before anything is asked."""
        for project_id in ("", 5, b"p"):
            self.assertRaises(ValueError, self.enforcer.enforce, project_id, {"cores": 1})
            self.assertRaises(ValueError, self.enforcer.calculate_usage, project_id, ["cores"])
        for deltas in ({}, None, [], [("cores", 1)], {1: 1}, {"cores": "1"}, {"cores": 1.0},
                       {"cores": None}):
            self.assertRaises(ValueError, self.enforcer.enforce, "p", deltas)
        for names in ([], {}, None, 5, [1], ["cores", None]):
            self.assertRaises(ValueError, self.enforcer.calculate_usage, "p", names)
        self.assertRaises(ValueError, self.enforcer.get_project_limits, None, None)
        self.assertEqual([], self.cloud.asked)
        connection = self.enforcer._connection
        self.assertRaises(ValueError, Enforcer, "callback", connection=connection)
        self.assertRaises(
            ValueError, Enforcer, self.usage, connection=connection, tree_usage_callback=5)

    def test_reports(self) -> None:
        """Limits and usage without a verdict, as oslo.limit gives them."""
        self.usages = {"p": {"cores": 15, "disks": 3}}
        self.assertEqual(
            {"disks": ProjectUsage(-1, 3), "cores": ProjectUsage(10, 15),
             "tapes": ProjectUsage(0, 0)},
            self.enforcer.calculate_usage("p", ["disks", "cores", "tapes"]))
        self.assertEqual(
            [("ram", 100), ("tapes", 0), ("disks", -1)],
            self.enforcer.get_registered_limits(["ram", "tapes", "disks"]))
        self.assertEqual(
            sorted(self.cloud.registered.items()),
            sorted(self.enforcer.get_registered_limits(None)))
        self.assertEqual(
            [("ram", 100), ("cores", 10), ("tapes", 0)],
            self.enforcer.get_project_limits("p", ["ram", "cores", "tapes"]))
        self.assertEqual([("cores", 10)], self.enforcer.get_project_limits("p", None))
        self.assertEqual([("cores", 20)], self.enforcer.get_project_limits(None, ["cores"]))

    def test_a_changed_limit_counts_at_once(self) -> None:
        """Nothing that was known is used without asking."""
        self.enforcer.enforce("p", {"cores": 10})
        self.cloud.limits["p"]["cores"] = 5
        self.assertEqual([("cores", 5, 0, 10)], self.refusal("p", {"cores": 10}))
        self.cloud.limits.clear()
        self.enforcer.enforce("p", {"cores": 20})

    def test_what_it_says(self) -> None:
        """A message for people, with the numbers."""
        self.usages = {"p": {"cores": 8}}
        error = self.assertRaises(ProjectOverLimit, self.enforcer.enforce, "p", {"cores": 3})
        self.assertEqual(
            "Project p is over its limits: cores: the limit is 10, 8 in use, 3 asked",
            str(error))


class TestFlatOfKeystone(TestFlat):
    """The same, a Keystone answering."""

    capacity = False

    def test_nothing_is_asked_twice(self) -> None:
        """Two questions for all resources; one, where the project's limits say it all."""
        self.enforcer.enforce("p", {"cores": 1, "ram": 1, "gpus": 0})
        self.assertEqual(
            ["/v3/limits", "/v3/registered_limits"], [one.path for one in self.cloud.asked])
        self.cloud.asked.clear()
        self.enforcer.enforce("p", {"cores": 1})
        self.enforcer.get_project_limits("p", None)
        self.assertEqual(["/v3/limits"] * 2, [one.path for one in self.cloud.asked])

    def test_no_region_is_a_region(self) -> None:
        """What is registered for other regions is not for none."""
        self.cloud.region = self.cloud.endpoints[0]["region_id"] = None
        self.cloud.elsewhere = [("here", "cores", 7), ("there", "tapes", 7)]
        enforcer = self.enforcer_with()
        self.assertEqual(
            [("cores", 20), ("tapes", 0)], enforcer.get_registered_limits(["cores", "tapes"]))
        self.assertEqual([("cores", 10)], enforcer.get_project_limits("p", None))


class TestAskedOnce(EnforcerTestCase):
    """At most one conditional request for each question."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.registered = {"cores": 20, "ram": 100}

    def test_each_decision_asks_whether_it_changed(self) -> None:
        """Also with an enforcer for each request, as nova has them."""
        for number in range(3):
            Enforcer(self.usage, connection=self.enforcer._connection).enforce(
                "p", {"cores": 1, "ram": 1})
            asked = self.cloud.asked.pop()
            self.assertEqual([], self.cloud.asked)
            self.assertEqual(EFFECTIVE, asked.path)
            self.assertEqual((bool(number), 304 if number else 200),
                             (asked.conditional, asked.status))

    def test_the_second_connection_of_a_process(self) -> None:
        """What was found out at start is not asked again."""
        for _ in range(2):
            Enforcer(self.usage, connection=self.enforcer._connection)
        self.assertEqual([], self.cloud.asked)

    def test_without_a_cache(self) -> None:
        """Everything is asked for anew, and nothing is kept."""
        enforcer = Enforcer(self.usage, False, connection=self.enforcer._connection)
        for each in (enforcer, enforcer, self.enforcer, enforcer):
            each.enforce("p", {"cores": 1})
        self.assertEqual([(False, 200)] * 4, [
            (one.conditional, one.status) for one in self.cloud.asked])

    def test_answers_that_may_be_old(self) -> None:
        """Within cache_seconds nothing is asked, also where nothing was found; then it is."""
        clock = [1000.0]
        self.patch(connections, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
        for capacity, questions in ((True, 1), (False, 2)):
            self.cloud.capacity = self.cloud.etags = capacity
            enforcer = self.enforcer_with(cache_seconds=30)
            for seconds, asked in ((0, questions), (30.5, questions), (29.5, 0), (1, questions)):
                clock[0] += seconds
                enforcer.enforce("p", {"cores": 1, "ram": 1})
                self.assertEqual(asked, len(self.cloud.asked), (capacity, seconds))
                self.cloud.asked.clear()

    def test_projects_are_not_mixed_up(self) -> None:
        """Each has answers of its own."""
        self.cloud.limits = {f"p{number}": {"cores": number} for number in range(10)}
        enforcer = self.enforcer_with(cache_seconds=60)
        for _ in range(2):
            for number in range(10):
                self.assertEqual([("cores", number, 0, 99)],
                                 self.refusal(f"p{number}", {"cores": 99}, enforcer))


_WITHOUT_A_SERVER = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
                "alembic", "granian", "numpy", "oslo_db", "oslo_policy", "pyramid", "sqlalchemy",
                "webob"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
from oslo_config import cfg
from placement_core.enforcer import Enforcer, exception, limit, opts
cfg.CONF([], default_config_files=[sys.argv[1]])
enforcer = limit.Enforcer(lambda project_id, names: dict.fromkeys(names, 3))
enforcer.enforce("p", {"cores": 1})
try:
    enforcer.enforce("p", {"cores": 2})
except exception.ProjectOverLimit as error:
    print(error)
"""


class TestOnItsOwn(EnforcerTestCase):
    """A service has the library and not the server."""

    def test_without_the_server(self) -> None:
        """Every model works without what only the server needs, from oslo.config's CONF."""
        self.cloud.registered = {"cores": 4}
        self.cloud.parents = {"d": None, "p": "d"}
        for self.cloud.model in ("flat", "strict_two_level", "tree", "overcommit"):
            done = subprocess.run(
                [sys.executable, "-c", _WITHOUT_A_SERVER, self.cloud.file()],
                capture_output=True, text=True)
            self.assertEqual(
                ("", "Project p is over its limits: cores: the limit is 4, 3 in use, 2 asked\n"),
                (done.stderr, done.stdout))
