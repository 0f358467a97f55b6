"""What is noted of counts, whichever driver makes them."""

from __future__ import annotations

import fixtures

from placement_core import errors, metrics
from placement_core.cells import engines
from placement_core.plugin_api.counting import Count, CountingDriver, MemberCount, MissingCell
from placement_core.quota.instrumented_counting import InstrumentedCounting
from tests import base, databases, scraping
from tests.functional.quota import cases


class Shown(base.DatabaseTestCase):
    def setUp(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()
        super().setUp()

    def numbers(self, name: str) -> scraping.Numbers:
        return scraping.counted(lambda: scraping.shown()[1], name)


class Abacus(CountingDriver):
    """A third party's driver."""

    units = ("beads",)
    folded = {"pearls": "beads"}
    transactional = True
    moves_once = True
    counts_members = False

    def __init__(self) -> None:
        self.forgot = 0

    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        if "nobody" in project_ids:
            raise errors.Unavailable("broken")
        return Count({each: {"beads": len(without)} for each in project_ids}, "abacus",
                     user={"beads": 1} if user_id else None, seconds={"left row": 0.5})

    def count_all(self, ctx, *, units):
        return Count({}, "abacus", missing_cells=[MissingCell("uuid", "right row", "lost")])

    def server_group_members(self, ctx, instance_uuids, user_id):
        return MemberCount(len(instance_uuids), "abacus")

    def forget(self) -> None:
        self.forgot += 1


class TestMeasured(Shown):
    def setUp(self) -> None:
        super().setUp()
        self.driver = Abacus()
        self.measured = InstrumentedCounting(self.driver, "abacus of mine")

    def test_it_is_the_driver(self) -> None:
        self.assertEqual((("beads",), {"pearls": "beads"}, True, True, False), (
            self.measured.units, self.measured.folded, self.measured.transactional,
            self.measured.moves_once, self.measured.counts_members))
        count = self.measured.count(
            self.ctx, ["p"], units=["beads"], user_id="u", without=["a", "b"])
        self.assertEqual(({"p": {"beads": 2}}, {"beads": 1}), (count.projects, count.user))
        self.assertEqual(
            2, self.measured.server_group_members(self.ctx, ["a", "b"], "u").members)
        self.measured.forget()
        self.assertEqual(1, self.driver.forgot)

    def test_what_is_noted(self) -> None:
        self.measured.count(self.ctx, ["p"], units=["beads"])
        self.measured.count_all(self.ctx, units=["beads"])
        self.measured.server_group_members(self.ctx, [], "u")
        self.assertRaises(
            errors.Unavailable, self.measured.count, self.ctx, ["nobody"], units=["beads"])
        self.assertEqual({
            ("complete", "projects", "abacus"): 1, ("partial", "all_projects", "abacus"): 1,
            ("complete", "server_group_members", "abacus"): 1,
            ("failed", "projects", "abacus of mine"): 1}, self.numbers("usage_counts_total"))
        self.assertEqual({("right row",): 1}, self.numbers("missing_cells_total"))
        self.assertEqual({("left row",): 0.5}, self.numbers("usage_source_seconds_sum"))


@databases.on_each_database
class TestCells(Shown, cases.QuotaTestCase):
    """Two cells, of which one has no database any more."""

    from_placement = False

    def built(self, **options):
        return super().built(
            metrics__enabled=True, quota__on_missing_cell="allow", **options)

    def test_missing_cell(self) -> None:
        self.use(self.trunk)
        self.assertTrue(self.check(self.trunk, cores=1).fits)
        self.cell("down", url="postgresql://nobody@127.0.0.1:1/nowhere")
        engines.SHARED.dispose()
        self.assertTrue(self.check(self.trunk, cores=1).fits)
        self.assertEqual({
            ("complete", "projects", "legacy_cell"): 1,
            ("partial", "projects", "legacy_cell"): 1}, self.numbers("usage_counts_total"))
        self.assertEqual({("down",): 1}, self.numbers("missing_cells_total"))
        self.assertEqual({("api_database",): 2, ("here",): 2, ("down",): 1},
                         self.numbers("usage_source_seconds_count"))
