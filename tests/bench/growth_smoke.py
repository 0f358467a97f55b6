"""Rows about growth, each once in the smallest size: a part of ``make soak``.

They start a service or two each, which takes minutes together.
"""

from tests.bench import smoke


class TestGrowth(smoke.SmokeTestCase):
    def test_decisions_are_measured(self):
        *ratios, statements = self.measured("growth-decision*")["growth"]
        for found in ratios:
            self.assertGreater(found["value"], 0)
            self.assertTrue(all(found["detail"].values()), found)
        self.assertEqual([True, False, False], [found["bound"] == 2 for found in ratios])
        self.assertEqual(statements["value"] <= 5, statements["met"])
        self.assertGreater(statements["value"], 1)

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
