"""GET /capacity/v1/room/fits and /room/stranded."""

from __future__ import annotations

from typing import Any

import fixtures

from placement_core import metrics
from placement_core.http.leases_api import representations
from placement_core.http.placement_api import microversions as mv
from placement_core.placement.room import stranded
from placement_core.reservations.manager.loop import PeriodicTask
from placement_core.testing import factories
from tests import databases, scraping
from tests.http import base
from tests.http.placement_api.cases import PlacementTestCase
from tests.http.placement_api.sweeps import WRONG_QUERY_VALUES

FITS = "/capacity/v1/room/fits"
STRANDED = "/capacity/v1/room/stranded"
_SHAPES = ["VCPU:4,MEMORY_MB:8192", "VCPU:1,CUSTOM_NOT_YET:1,weight:2"]


class RoomTestCase(PlacementTestCase):
    def get(self, path: str, query: str = "", status: int = 200, **options: Any) -> Any:
        response = self.ask("GET", f"{path}?{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def put(self, allocations: dict[str, dict[str, int]]) -> int:
        """Claim by a new consumer; return the status."""
        return self.ask("PUT", f"/allocations/{factories.new_uuid()}", self.claim(
            allocations)).status_int


@databases.on_each_database
class TestFits(RoomTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.small = self.provider("small", VCPU=5, MEMORY_MB=65536)
        self.large = self.provider("large", VCPU={"total": 24, "max_unit": 4}, MEMORY_MB=16384)

    def test_document(self) -> None:
        self.assertEqual({
            "fits": 6, "exact": True, "host_count": 2,
            "hosts": [{"uuid": self.large, "name": "large", "fits": 4},
                      {"uuid": self.small, "name": "small", "fits": 2}],
            "stopped_by": {
                "reason": "1 host has no room for MEMORY_MB:4096; 1 host has no room for VCPU:2",
                "obstacles": [
                    {"filter": "resources", "value": "MEMORY_MB:4096", "hosts": 1},
                    {"filter": "resources", "value": "VCPU:2", "hosts": 1}]},
        }, self.get(FITS, "resources=VCPU:2,MEMORY_MB:4096"))

    def test_so_many_can_be_claimed(self) -> None:
        """Exactly; the next one is refused."""
        found = self.get(FITS, "resources=VCPU:2,MEMORY_MB:4096")
        for host in found["hosts"]:
            for _ in range(host["fits"]):
                self.assertEqual(204, self.put({host["uuid"]: {"VCPU": 2, "MEMORY_MB": 4096}}))
            self.assertEqual(409, self.put({host["uuid"]: {"VCPU": 2, "MEMORY_MB": 4096}}))
        self.assertEqual(0, self.get(FITS, "resources=VCPU:2,MEMORY_MB:4096")["fits"])

    def test_in_nested_trees(self) -> None:
        """One candidate after the other, as nova would claim them."""
        cells = [self.provider(f"numa{number}", self.small, PCPU=total)
                 for number, total in enumerate((7, 4))]
        query = ("resources_A=PCPU:2&resources_B=PCPU:1&group_policy=isolate"
                 "&resources=MEMORY_MB:1024")
        found = self.get(FITS, query)
        self.assertEqual((3, True, 1), (found["fits"], found["exact"], found["host_count"]))
        for _ in range(3):
            self.assertEqual(204, self.put({
                cells[0]: {"PCPU": 2}, cells[1]: {"PCPU": 1}, self.small: {"MEMORY_MB": 1024}}))
        self.assertEqual(0, self.get(FITS, query)["fits"])
        self.assertEqual([], self.ask(
            "GET", f"/allocation_candidates?{query}").json["allocation_requests"])

    def test_nothing_fits(self) -> None:
        found = self.get(FITS, "resources=VCPU:8")
        self.assertEqual((0, []), (found["fits"], found["hosts"]))
        self.assertEqual("no host has 8 VCPU to give at once; 1 host has so many free, but "
                         "the highest max_unit is 4 on large", found["stopped_by"]["reason"])

    def test_a_limit_is_one_of_hosts(self) -> None:
        found = self.get(FITS, "resources=VCPU:1&limit=1")
        self.assertEqual((29, 2, 1), (found["fits"], found["host_count"], len(found["hosts"])))


class TestFitsAsAnApi(RoomTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.provider("host", VCPU=8)

    def test_one_provider_of_a_tree(self) -> None:
        """The microversion says how the query is meant."""
        self.provider("gpu", self.host, VGPU=1)
        query = "resources=VCPU:1,VGPU:1"
        self.assertEqual(1, self.get(FITS, query)["fits"])
        found = self.call("GET", f"{FITS}?{query}", at=mv.ALL_CLASSES, status=200).json
        self.assertEqual(0, found["fits"])
        self.assertIn("several providers of one tree", found["stopped_by"]["reason"])
        self.assertEqual([{"filter": "resources", "value": "VCPU:1,VGPU:1", "hosts": 1}],
                         found["stopped_by"]["obstacles"])

    def test_policy(self) -> None:
        for path, rule in ((f"{FITS}?resources=VCPU:1", "fits"), (STRANDED, "stranded")):
            for roles, status in (("admin", (200, 409)), ("service", (200, 409)),
                                  ("member,reader", (403,))):
                response = self.ask("GET", path, version=None, token="bob:one",
                                    headers={"X-Roles": roles})
                self.assertIn(response.status_int, status, roles)
            self.assert_refused(403, f"Policy does not allow capacity:room:{rule}", response,
                                "placement.undefined_code")
            self.assertEqual(401, self.ask("GET", path, version=None, token=None).status_int)

    def test_bad_queries(self) -> None:
        for query, detail, code in (
            ("", "There must be at least one resources", "placement.query.missing_value"),
            ("resources=NOPE:1", "No such resource class NOPE", "placement.undefined_code"),
            ("resources=VCPU:1&required=NOPE", "No such trait(s): NOPE",
             "placement.undefined_code"),
            ("resources=VCPU:1&bogus=1", "'bogus'", "placement.undefined_code"),
            ("resources=VCPU:0", "VCPU", "placement.undefined_code"),
            ("resources=VCPU:1&limit=0", "'0'", "placement.undefined_code"),
        ):
            self.assert_refused(
                400, detail, self.ask("GET", f"{FITS}?{query}", version=None), code)

    def test_whatever_a_query_holds(self) -> None:
        """It is counted or refused, as the Placement API answers or refuses it."""
        for name in ("resources", "resources_A", "required", "required_A", "member_of",
                     "in_tree", "limit", "group_policy", "root_required", "same_subtree"):
            for value in WRONG_QUERY_VALUES:
                query = f"resources=VCPU:1&resources_A=VCPU:1&{name}={value}"
                answered = self.ask("GET", f"/allocation_candidates?{query}").status_int
                counted = self.ask("GET", f"{FITS}?{query}", version=None).status_int
                self.assertEqual(answered, counted, query)


@databases.on_each_database
class TestStranded(RoomTestCase):
    options = {("least_stranded", "shape"): _SHAPES}

    def setUp(self) -> None:
        super().setUp()
        self.full = self.provider("full", VCPU=10, MEMORY_MB=8192)
        self.lean = self.provider("lean", VCPU=4, MEMORY_MB=30000)

    def test_document(self) -> None:
        self.assertEqual({
            "resource_classes": {
                "MEMORY_MB": {"free": 38192, "stranded": 21808, "by_cause": {"VCPU": 21808}},
                "VCPU": {"free": 14, "stranded": 6, "by_cause": {"MEMORY_MB": 6}},
                "CUSTOM_NOT_YET": {"free": 0, "stranded": 0, "by_cause": {}}},
            "host_count": 2,
            "hosts": [
                {"uuid": self.lean, "name": "lean", "stranded": {
                    "MEMORY_MB": {"amount": 21808, "cause": "VCPU"}}},
                {"uuid": self.full, "name": "full", "stranded": {
                    "VCPU": {"amount": 6, "cause": "MEMORY_MB"}}}],
            "shapes": [
                {"resources": {"VCPU": 4, "MEMORY_MB": 8192}, "weight": 1.0, "fits": 2,
                 "exact": True},
                {"resources": {"VCPU": 1, "CUSTOM_NOT_YET": 1}, "weight": 2.0, "fits": 0,
                 "exact": True}],
        }, self.get(STRANDED))

    def test_limit(self) -> None:
        found = self.get(STRANDED, "limit=1")
        self.assertEqual((2, ["lean"]), (
            found["host_count"], [host["name"] for host in found["hosts"]]))
        for query in ("limit=0", "limit=x", "marker=1", "resources=VCPU:1"):
            self.get(STRANDED, query, status=400)

    def test_room_that_is_used(self) -> None:
        self.assertEqual(204, self.put({self.full: {"VCPU": 6, "MEMORY_MB": 1}}))
        found = self.get(STRANDED)
        self.assertEqual({"free": 8, "stranded": 4, "by_cause": {"MEMORY_MB": 4}},
                         found["resource_classes"]["VCPU"])
        self.assertEqual([1, 0], [shape["fits"] for shape in found["shapes"]])


class TestPublicStranded(RoomTestCase):
    """An operator lets everybody see what is stranded."""

    def setUp(self) -> None:
        self.options = {
            ("least_stranded", "shape"): _SHAPES,
            **base.policy_file(self, {
                "capacity:room:stranded": "rule:admin_or_service_api or role:member"})}
        super().setUp()
        self.provider("host", VCPU=10, MEMORY_MB=8192)

    def test_not_single_hosts(self) -> None:
        """Hosts have a rule of their own; the rest is the same."""
        every = self.get(STRANDED)
        self.assertEqual((1, ["host"]), (
            every["host_count"], [host["name"] for host in every["hosts"]]))
        seen = self.get(STRANDED, token="jane:web", headers={"X-Roles": "member"})
        self.assertEqual({**every, "hosts": None}, seen)


class TestStrandedWithoutShapes(RoomTestCase):
    def test_the_option_is_named(self) -> None:
        self.assert_refused(409, "set [least_stranded] shape in placement.conf",
                            self.ask("GET", STRANDED, version=None), "room.no_shapes")


class MetricsTestCase(RoomTestCase):
    def setUp(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        super().setUp()

    def find_tasks(self) -> list[PeriodicTask]:
        """Return what a manager does about what is stranded."""
        tasks = self.parts[0].manager(representations.LEASE)._tasks
        return [task for task in tasks if task.name == "metrics of what is stranded"]

    def numbers(self, name: str) -> scraping.Numbers:
        return scraping.counted(lambda: scraping.shown()[1], name)


class TestStrandedMetrics(MetricsTestCase):
    """One process of a service counts, and only if somebody reads it."""

    options = {("least_stranded", "shape"): _SHAPES}

    def test_numbers(self) -> None:
        """Those of the API, as they change; labels are in the order of their names."""
        full = self.provider("full", VCPU=10, MEMORY_MB=8192)
        self.provider("lean", VCPU=4, MEMORY_MB=30000)
        self.assertEqual([], self.find_tasks())
        metrics.start()
        [task] = self.find_tasks()
        task.do(self.parts[0].context())
        self.assertEqual(
            {("VCPU:4,MEMORY_MB:8192",): 2, ("VCPU:1,CUSTOM_NOT_YET:1",): 0},
            self.numbers("shape_fits"))
        amounts = {("VCPU", "MEMORY_MB"): 21808, ("MEMORY_MB", "MEMORY_MB"): 0,
                   ("MEMORY_MB", "VCPU"): 6, ("VCPU", "VCPU"): 0,
                   ("CUSTOM_NOT_YET", "CUSTOM_NOT_YET"): 0}
        self.assertEqual(amounts, self.numbers("stranded"))
        self.assertLess(0, self.numbers("stranded_timestamp_seconds")[()])
        self.assertEqual(204, self.put({full: {"VCPU": 6, "MEMORY_MB": 1}}))
        task.do(self.parts[0].context())
        self.assertEqual(1, self.numbers("shape_fits")["VCPU:4,MEMORY_MB:8192",])
        self.assertEqual({**amounts, ("MEMORY_MB", "MEMORY_MB"): 8191, ("MEMORY_MB", "VCPU"): 4},
                         self.numbers("stranded"))

    def test_unchanged(self) -> None:
        """An unchanged cloud is not searched again; the metrics are as of now all the same."""
        self.provider("host", VCPU=10, MEMORY_MB=8192)
        metrics.start()
        [task] = self.find_tasks()
        find, searches = stranded.find, 0

        def count_search(*arguments: Any, **options: Any) -> stranded.Stranded:
            nonlocal searches
            searches += 1
            return find(*arguments, **options)

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.placement.room.stranded.find", count_search))
        set_at = 0.0
        for expected in (1, 1, 2):
            task.do(self.parts[0].context())
            self.assertEqual(expected, searches)
            before, set_at = set_at, self.numbers("stranded_timestamp_seconds")[()]
            self.assertLess(before, set_at)
            if expected == 1 and before:
                self.provider("another", VCPU=4, MEMORY_MB=8192)


class TestStrandedMetricsWithoutShapes(MetricsTestCase):
    def test_nobody_counts(self) -> None:
        metrics.start()
        self.assertEqual([], self.find_tasks())
