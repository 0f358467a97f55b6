"""Rows about growth and beside Keystone, once in the smallest size: a part of ``make soak``.

They start a service or two each, which takes minutes together.
"""

import importlib.util
import unittest

from benchmarks import growth
from tests.bench import smoke


class TestLimits(smoke.SmokeTestCase):
    @unittest.skipUnless(importlib.util.find_spec("keystone"), "Keystone is not installed")
    def test_keystone_is_measured_and_agrees(self):
        document = self.measured("limits-*")
        self.assertIsNone(document["upstream"])
        self.assertIn("keystone", document["keystone"])
        self.assertEqual(
            {"limits-project", "limits-project-new", "limits-304", "limits-all"},
            {row["name"] for row in document["rows"]})
        for row in document["rows"]:
            self.assertEqual("keystone", row["peer"])
            self.assertIs(row["answers_agree"], True, row["problems"])
            self.assertEqual([], row["problems"])
            self.assertEqual(1, len(row["ratios"]))
            expected = "304" if row["name"] == "limits-304" else "200"
            self.assertEqual([{expected}, {"200"}],
                             [set(row[side][0]["statuses"]) for side in ("ours", "upstream")])


class TestGrowth(smoke.SmokeTestCase):
    def test_decisions_are_measured(self):
        *ratios, statements = self.measured("growth-decision*")["growth"]
        for found in ratios:
            self.assertGreater(found["value"], 0)
            self.assertTrue(all(found["detail"].values()), found)
        self.assertEqual([True, False, False], [found["bound"] == 2 for found in ratios])
        self.assertEqual(statements["value"] <= 5, statements["met"])
        self.assertGreater(statements["value"], 1)

    def test_guarded_claims_are_measured(self):
        trees, one_tree = self.measured("growth-guard*")["growth"]
        self.assertIsNone(trees["bound"], "SQLite has none")
        self.assertEqual({"postgresql": 1.15, "mysql": 1.4},
                         growth.MEASURES["growth-guard"].bound)
        self.assertIsNone(one_tree["bound"])
        for found in (trees, one_tree):
            detail = found["detail"]
            self.assertEqual(
                found["value"], max(detail["ratio_8"], detail["ratio_32"]))
            for clients in (8, 32):
                self.assertGreater(detail[f"off_per_second_{clients}"], 0)
                self.assertGreater(detail[f"enforce_per_second_{clients}"], 0)

    def test_audited_claims_are_measured(self):
        [found] = self.measured("growth-audit")["growth"]
        detail = found["detail"]
        self.assertEqual(1.05, found["bound"])
        self.assertEqual(found["value"], max(
            detail[f"on_together_ms_{clients}"] / detail[f"off_together_ms_{clients}"]
            for clients in (8, 32)))

    def test_metrics_are_measured(self):
        [found] = self.measured("growth-metrics")["growth"]
        self.assertEqual(5, found["bound"])
        self.assertEqual(found["value"], max(found["detail"].values()))
        # Counting takes three additions; without any, it would be next to nothing.
        self.assertGreater(min(found["detail"].values()), 0.2)

    def test_a_count_over_cells_is_measured(self):
        [found] = self.measured("growth-cells")["growth"]
        detail = found["detail"]
        self.assertEqual(2, found["bound"])
        self.assertAlmostEqual(detail["ms_all"] / detail["ms_farthest"], found["value"])

    def test_the_quota_of_all_is_measured(self):
        [found] = self.measured("growth-quota-all")["growth"]
        detail = found["detail"]
        self.assertEqual(30, found["bound"])
        self.assertEqual(found["value"], max(
            detail[f"{when}_ms_all"] / detail[f"{when}_ms_one"]
            for when in ("after_claim", "after_nothing")))

    def test_requests_with_many_allocations_are_measured(self):
        [found] = self.measured("growth-allocations")["growth"]
        detail = found["detail"]
        self.assertEqual(2, found["bound"])
        self.assertEqual(found["value"], max(
            detail[name] for name in detail if name.endswith("_ratio")))
        self.assertAlmostEqual(
            detail["claims_per_second_100k"] / detail["claims_per_second_1m"],
            detail["claims_ratio"])

    def test_leases_are_measured(self):
        found = {each["name"]: each for each in self.measured("leases-*")["growth"]}
        self.assertEqual(
            {name for name in growth.MEASURES if name.startswith("leases-")}, set(found))
        self.assertTrue(all(each["bound"] for each in found.values()))
        for name in ("leases-create-statements", "leases-refuse-statements"):
            self.assertTrue(found[name]["met"], found[name])
        self.assertGreater(found["leases-starts"]["value"], 0)
        for name in ("leases-create", "leases-refuse", "leases-timeline", "leases-next-fit"):
            detail = found[name]["detail"]
            self.assertEqual(found[name]["value"], detail["ms_10k"])
            self.assertAlmostEqual(detail["ms_10k"], detail["server_ms_10k"])
        detail = found["leases-all"]["detail"]
        self.assertEqual(found["leases-all"]["value"], max(
            detail[f"{which}_ms_10k"] for which in ("first", "at_once", "in_pages")))
        detail = found["leases-many"]["detail"]
        self.assertEqual(found["leases-many"]["value"], max(
            detail[f"{which}_ms_100k"] / detail[f"{which}_ms_10k"]
            for which in ("create", "refuse", "next_fit", "of_a_project")))
        detail = found["leases-project"]["detail"]
        self.assertAlmostEqual(
            found["leases-project"]["value"], detail["ms_10k"] / detail["ms_1k"])
