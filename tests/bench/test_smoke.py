"""The benchmark harness, run once in the smallest size against both sides."""

import collections
import datetime
import importlib.util
import pathlib
import shutil
import tempfile
import unittest

from benchmarks import (
    agreement,
    client,
    databases,
    datasets,
    growth,
    leases,
    limits,
    page,
    profile,
    rows,
)
from tests import base
from tests.bench import smoke


class TestSmoke(smoke.SmokeTestCase):
    """A row of most kinds; those about growth and beside Keystone are in ``long_smoke``."""

    @unittest.skipUnless(importlib.util.find_spec("placement"), "upstream is not installed")
    def test_both_sides_are_measured_and_agree(self):
        candidates, claims = self.measured("candidates-1k", "claims-hot")["rows"]
        self.assertIs(candidates["answers_agree"], True)
        self.assertEqual(1, len(candidates["ratios"]))
        self.assertEqual([], candidates["problems"] + claims["problems"])
        self.assertEqual({"204"}, set(claims["ours"][0]["statuses"]))
        self.assertGreater(candidates["ours"][0]["cpu_ms"]["server"], 0)

    def test_leases_are_measured(self):
        [found] = self.measured("leases-create-statements")["growth"]
        self.assertTrue(found["met"], found)
        self.assertGreater(found["value"], 1)


class TestDatasets(base.TestCase):
    """What is loaded is what the pages say."""

    def test_every_provider_has_3_classes_5_traits_2_aggregates(self):
        for dataset in {row.dataset.empty.scaled(0.001) for row in rows.ROWS
                      if isinstance(row.dataset, datasets.Dataset)}:
            for unit in dataset.units():
                for provider in unit:
                    self.assertEqual(
                        (3, 5, 2),
                        (len(provider.inventories), len(set(provider.traits)),
                         len(set(provider.aggregates))),
                        provider.name)

    def test_trees_are_made_from_the_root_down(self):
        for unit in datasets.Dataset("tree", 3).units():
            self.assertEqual(7, len(unit))
            known = {None}
            for provider in unit:
                self.assertIn(provider.parent, known)
                known.add(provider.uuid)

    def test_a_nearly_full_dataset_has_full_hosts_and_none_over(self):
        dataset = datasets.Dataset("flat", 10, percent_full=90)
        disk = dict.fromkeys(map(dataset.host, range(dataset.hosts)), 0)
        for claim in dataset.claims():
            disk[claim.provider] += claim.resources["DISK_GB"]
        self.assertEqual(20480, max(disk.values()))
        self.assertEqual(20480 * 9, sum(disk.values()))

    def test_names_fit_every_database(self):
        for row in rows.ROWS:
            self.assertLess(len(f"bench_upstream_{row.dataset.name}"), 60)

    def test_a_tree_of_projects_has_five_levels(self):
        for count in (16, 50, 5000):
            dataset = limits.Dataset("tree", count)
            depths = {None: 0}
            for level, projects in enumerate(dataset.levels(), 1):
                for name, above in projects:
                    self.assertEqual(level - 1, depths[above])
                    depths[name] = level
            self.assertEqual(count, len(depths) - 1)
            self.assertEqual(5, depths[dataset.lowest])
            self.assertEqual(5, max(depths.values()))
            self.assertEqual(1, sum(depth == 1 for depth in depths.values()))

    def test_trees_of_projects_have_three_levels_and_limits_at_each(self):
        dataset = limits.Dataset("trees", 50 * limits.TREE, hosts=1000).scaled(0.1)
        self.assertEqual(datasets.Dataset("flat", 100), dataset.empty)
        self.assertEqual([5, 15, 45], [len(level) for level in dataset.levels()])
        above = {name: parent for level in dataset.levels() for name, parent in level}
        self.assertEqual([dataset.project(number) for number in range(dataset.projects)],
                         sorted(above))
        below = collections.Counter(parent for parent in above.values() if parent)
        self.assertEqual({3}, set(below.values()))
        self.assertIsNotNone(above[above[dataset.lowest]])
        self.assertIsNone(above[above[above[dataset.lowest]]])
        found = collections.Counter(project for project, _ in dataset.limits())
        self.assertEqual(dict.fromkeys(above, 4), found)

    def test_leases_never_hold_more_of_a_host_than_it_has(self):
        capacities = {"vcpus": 1024, "memory_mb": 524288 - 512, "disk_gb": 20480}
        for hosts, years in ((8, 1), (30, 1), (100, 1), (8, 3)):
            dataset = leases.Dataset(hosts, years)
            found = list(dataset.leases())
            self.assertEqual(dataset.size, len(found))
            self.assertEqual(10 * hosts * years, len({lease.name for lease in found}))
            turns = collections.defaultdict(list)
            for lease in found:
                self.assertLess(lease.start, lease.end)
                for host, slots in lease.slots.items():
                    amount = 10**9 if lease.whole else slots
                    turns[host] += [(lease.start, amount), (lease.end, -amount)]
            self.assertEqual(set(range(hosts)), set(turns))
            for of_host in turns.values():
                held = 0
                # What ends comes before what begins at the same time.
                for _, amount in sorted(of_host):
                    held += amount
                    for name, capacity in capacities.items():
                        self.assertTrue(
                            held == 10**9 or held * leases.SLOT[name] <= capacity, held)
                self.assertEqual(0, held)

    def test_a_project_has_as_many_leases_in_every_dataset_of_them(self):
        for dataset in (leases.Dataset(8), leases.Dataset(100), leases.Dataset(1000),
                        leases.Dataset(8, years=3)):
            found = collections.Counter(lease.project for lease in dataset.leases())
            self.assertEqual(leases.LESSEES_LEASES, found[leases.LESSEE])
            self.assertEqual(dataset.size, found.total())

    def test_nothing_is_free_in_the_last_week_of_leases(self):
        for hosts in (8, 50):
            begins, ends = (
                leases.YEAR + datetime.timedelta(days=day) for day in leases.FULL)
            held = [host for lease in leases.Dataset(hosts).leases()
                    if lease.whole and (lease.start, lease.end) == (begins, ends)
                    for host in lease.slots]
            self.assertEqual(list(range(hosts)), sorted(held))

    def test_every_project_of_10_000_limits_has_20(self):
        found = [(project, limit["resource_name"])
                 for project, limit in rows.LIMITS_10K.limits()]
        self.assertEqual(10_000, len(set(found)))
        self.assertEqual({20}, set(collections.Counter(name for name, _ in found).values()))
        self.assertEqual({name for [level] in [rows.LIMITS_10K.levels()] for name, _ in level},
                         {name for name, _ in found})


class TestAgreement(base.TestCase):
    """Judging a choice of candidates by everything there is."""

    def setUp(self):
        super().setUp()
        self.everything = _answer("a", "b", "c")

    def test_a_choice_within_the_limit_is_legal(self):
        self.assertIsNone(agreement.chosen_from(_answer("c", "a"), self.everything, 2))

    def test_order_is_no_difference(self):
        self.assertIsNone(agreement.chosen_from(_answer("c", "b", "a"), self.everything, 3))

    def test_too_many_too_few_twice_and_unknown_are_told(self):
        for names, limit, told in (
            ("abc", 2, "3 candidates, limit 2"),
            ("ab", 3, "2 of 3 candidates"),
            ("aa", 2, "there twice"),
            ("ax", 2, "does not have"),
            ("", 2, "no candidate"),
        ):
            found = agreement.chosen_from(_answer(*names), self.everything, limit)
            self.assertIn(told, found or "")

    def test_another_summary_is_told(self):
        chosen = _answer("a", "b")
        chosen["provider_summaries"]["a"]["resources"]["VCPU"]["used"] = 1
        self.assertIn("summary of a", agreement.chosen_from(chosen, self.everything, 2) or "")


class TestAgreementOnLimits(base.TestCase):
    """Limits of two sides, each with ids of its own."""

    def setUp(self):
        super().setUp()
        self.ids = [limits.Ids(f"service-{side}", {"one": f"1-{side}", "two": f"2-{side}"})
                    for side in "ab"]

    def differ(self, ours, theirs, *, statuses=(200, 200)):
        """Compare {(project, resource): value} of both sides."""
        found = []
        for side, status, values in zip("ab", statuses, (ours, theirs), strict=True):
            rows = [{
                "id": f"limit-{side}-{number}", "project_id": f"{project}-{side}",
                "domain_id": None, "service_id": f"service-{side}", "region_id": "bench",
                "resource_name": resource, "resource_limit": value, "description": None,
                "links": {"self": f"http://{side}/v3/limits/limit-{side}-{number}"},
            } for number, ((project, resource), value) in enumerate(values.items())]
            found.append((status, {"limits": rows, "links": {
                "self": f"http://{side}/v3/limits?project_id=1-{side}", "next": None,
                "previous": None}}))
        return agreement.same_limits(found, self.ids, "/v3/limits")

    def test_ids_and_order_are_no_difference(self):
        self.assertIsNone(self.differ({(1, "cores"): 5, (2, "ram"): 7},
                                      {(2, "ram"): 7, (1, "cores"): 5}))

    def test_another_value_project_or_number_is_told(self):
        for theirs in ({(1, "cores"): 6}, {(2, "cores"): 5}, {(1, "ram"): 5}, {},
                       {(1, "cores"): 5, (2, "cores"): 5}):
            self.assertIn("bodies differ", self.differ({(1, "cores"): 5}, theirs) or "")

    def test_a_refusal_is_no_agreement(self):
        for statuses in ((200, 403), (403, 403)):
            self.assertIn("status", self.differ({}, {}, statuses=statuses) or "")


class TestAnswers(base.TestCase):
    """What counts as an answer that was wanted."""

    def test_what_is_known_already_is_good(self):
        self.assertEqual(
            [True, True, True, False, False],
            [client.Answer(0, status, 1, 0).good for status in (200, 204, 304, 301, 404)])


class TestSQLite(base.TestCase):
    """Databases made, copied and dropped."""

    def test_a_copy_has_the_rows_and_is_a_file_of_its_own(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-bench-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        server = databases.SQLite(folder)
        with server.connect("one") as connection:
            connection.exec_driver_sql("CREATE TABLE things (id INTEGER)")
            connection.exec_driver_sql("INSERT INTO things VALUES (1)")

        server.copy("one", "two")
        server.drop("one")

        self.assertFalse(server.exists("one"))
        with server.connect("two") as connection:
            self.assertEqual(1, connection.exec_driver_sql("SELECT id FROM things").scalar())


def _answer(*names):
    return {
        "allocation_requests": [
            {"allocations": {name: {"resources": {"VCPU": 1}}}, "mappings": {"": [name]}}
            for name in names],
        "provider_summaries": {
            name: {"resources": {"VCPU": {"capacity": 8, "used": 0}}, "traits": ["B", "A"]}
            for name in names},
    }


class TestProfile(base.TestCase):
    """Samples are charged to the layer that the innermost known frame belongs to."""

    def test_shares(self):
        outer = "run (granian/wsgi.py:1);answer (placement_core/http/tweens.py:2)"
        self.assertEqual(
            {"SQLAlchemy, oslo.db": 0.5, "our HTTP pipeline": 0.375, "other": 0.125},
            profile.shares([
                f"{outer};execute (sqlalchemy/engine/base.py:3);get (contextlib.py:4) 4",
                f"{outer} 3",
                "bootstrap (threading.py:9) 1",
            ]))


class TestPage(base.TestCase):
    """doc/performance.md says what the committed results say."""

    def test_the_page_has_these_results(self):
        text = page.PAGE.read_text()
        self.assertEqual(text, page.with_results(text, page.load()))

    def test_every_demand_was_measured_on_both_or_is_awaited(self):
        wanted = {row.name for row in rows.ROWS if row.demanded} | set(growth.MEASURES)
        missing = set()
        for document in page.load():
            missing |= (wanted - {row["name"] for row in document["rows"] if row["ours"]}
                        - {found["name"] for found in document["growth"]})
        self.assertEqual(page.AWAITED, missing, "page.AWAITED is what the results do not have")

    def test_the_page_says_what_was_not_measured(self):
        measured = page.load()[0]
        bare = {**measured, "database": "another", "rows": [], "growth": []}
        text = page.with_results(f"{page.BEGIN}{page.END}", [measured, bare])
        titles = {row.name: row.title for row in rows.ROWS if row.demanded}
        titles |= {name: measure.title for name, measure in growth.MEASURES.items()}
        for title in titles.values():
            line = next(line for line in text.splitlines() if line.startswith(f"| {title} |"))
            self.assertIn(page.NOT_YET, line)
