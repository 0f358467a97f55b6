"""How full quotas are."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from unittest import mock

import fixtures

from placement_core import metrics
from placement_core.metrics import QuotaFill
from placement_core.monitoring import quota
from placement_core.plugin_api.counting import Count, MissingCell
from placement_core.quota.overview import NO_LIMIT, Overview, ResourceColumn
from tests import base


def column(used: Sequence[int] | None, free: Sequence[int] | None) -> ResourceColumn:
    return ResourceColumn([0] * 4, ["default"] * 4, used, free, [None] * 4)


class TestFill(base.TestCase):
    def measure(self, used: Sequence[int] | None, free: Sequence[int] | None) -> object:
        overview = Overview(["a", "b", "c", "d"], {}, {"VCPU": column(used, free)}, None)
        return quota.measure(overview).get("VCPU")

    def test_shares(self) -> None:
        for used, free, expected in (
            ([0, 5, 1, 0], [10, 5, 9, 10], QuotaFill(0.5, {80: 0, 95: 0, 100: 0})),
            ([8, 19, 10, 3], [2, 1, 0, 7], QuotaFill(1.0, {80: 3, 95: 2, 100: 1})),
            # More is used than the limit says.
            ([12, 0, 0, 0], [0, 10, 10, 10], QuotaFill(1.0, {80: 1, 95: 1, 100: 1})),
            # A limit of 0 that nobody notices.
            ([0, 0, 0, 0], [0, 0, 0, 0], QuotaFill(0.0, {80: 0, 95: 0, 100: 0})),
            # Some are not bound.
            ([7, 9, 0, 0], [NO_LIMIT, 1, NO_LIMIT, 10], QuotaFill(0.9, {80: 1, 95: 0, 100: 0})),
        ):
            self.assertEqual(expected, self.measure(used, free), (used, free))

    def test_nothing_to_say(self) -> None:
        self.assertIsNone(self.measure(None, None))
        self.assertIsNone(self.measure([5, 5, 5, 5], [NO_LIMIT] * 4))


class TestExport(base.TestCase):
    def export(self, missing_cells: Sequence[MissingCell]) -> object:
        """Return what the metrics are set to."""
        fills = []
        self.useFixture(fixtures.MonkeyPatch(f"{metrics.__name__}.set_quota", fills.append))
        overview = Overview(
            ["a", "b", "c", "d"], {}, {"VCPU": column([9, 0, 0, 0], [1, 10, 10, 10])},
            Count({}, "cells", missing_cells=missing_cells))
        quota.export(mock.sentinel.ctx, overviews=SimpleNamespace(make=lambda ctx: overview))
        return fills

    def test_all_is_counted(self) -> None:
        self.assertEqual([{"VCPU": QuotaFill(0.9, {80: 1, 95: 0, 100: 0})}], self.export([]))

    def test_cells_that_do_not_answer(self) -> None:
        """The last numbers stay: those without the cells would be too low."""
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual([], self.export([MissingCell("uuid", "cell1", "timeout")]))
        self.assertIn("1 cells do not answer", log.output)
