"""The benchmark harness, run once in the smallest size against both sides."""

import importlib.util
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

from benchmarks import (
    __main__ as benchmarks,
    agreement,
    databases,
    growth,
    page,
    profile,
    rows,
    worlds,
)
from tests import base


class TestSmoke(base.TestCase):
    """Two rows on SQLite, both sides, with turns of a moment."""

    @unittest.skipUnless(shutil.which("cc"), "plload needs a C compiler")
    @unittest.skipUnless(importlib.util.find_spec("placement"), "upstream is not installed")
    def test_both_sides_are_measured_and_agree(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-bench-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        said = io.StringIO()

        with redirect_stdout(said), redirect_stderr(said):
            benchmarks.main([
                *("--database", "sqlite", "--row", "candidates-1k", "--row", "claims-hot"),
                *("--scale", "0.004", "--pairs", "1", "--seconds", "0.1", "--clients", "2"),
                *("--upstream-python", sys.executable),
                *("--build", str(folder), "--results", str(folder)),
            ])

        document = json.loads((folder / "sqlite.json").read_text())
        candidates, claims = document["rows"]
        self.assertIs(candidates["answers_agree"], True)
        self.assertEqual(1, len(candidates["ratios"]))
        self.assertEqual([], candidates["problems"] + claims["problems"])
        self.assertEqual({"204"}, set(claims["ours"][0]["statuses"]))
        self.assertGreater(candidates["ours"][0]["cpu_ms"]["server"], 0)
        self.assertNotIn(str(folder), json.dumps(document))


class TestWorlds(base.TestCase):
    """What is loaded is what the pages say."""

    def test_every_provider_has_3_classes_5_traits_2_aggregates(self):
        for world in {row.world.empty.scaled(0.001) for row in rows.ROWS}:
            for unit in world.units():
                for provider in unit:
                    self.assertEqual(
                        (3, 5, 2),
                        (len(provider.inventories), len(set(provider.traits)),
                         len(set(provider.aggregates))),
                        provider.name)

    def test_trees_are_made_from_the_root_down(self):
        for unit in worlds.World("tree", 3).units():
            self.assertEqual(7, len(unit))
            known = {None}
            for provider in unit:
                self.assertIn(provider.parent, known)
                known.add(provider.uuid)

    def test_a_nearly_full_world_has_full_hosts_and_none_over(self):
        world = worlds.World("flat", 10, percent_full=90)
        disk = dict.fromkeys(map(world.host, range(world.hosts)), 0)
        for claim in world.claims():
            disk[claim.provider] += claim.resources["DISK_GB"]
        self.assertEqual(20480, max(disk.values()))
        self.assertEqual(20480 * 9, sum(disk.values()))

    def test_names_fit_every_database(self):
        for row in rows.ROWS:
            self.assertLess(len(f"bench_upstream_{row.world.name}"), 60)


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
        outer = "run (granian/wsgi.py:1);answer (placement_core/http/pipeline.py:2)"
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

    def test_every_demand_was_measured_on_both(self):
        wanted = {row.name for row in rows.ROWS if row.floor or row.p95_ms or row.exact}
        for document in page.load():
            self.assertEqual(
                set(), wanted - {row["name"] for row in document["rows"] if row["ours"]})
            self.assertEqual(
                set(growth.MEASURES), {found["name"] for found in document["growth"]})
