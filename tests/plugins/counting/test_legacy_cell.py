"""The driver ``legacy_cell``, and what stands in for cells that say nothing."""

import time
import uuid

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.cells import counts, databases as cell_databases
from placement_core.cells.counts import CellCount, InstanceTotals
from placement_plugins.counting import last_known
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from tests import base, databases, round_trips
from tests.plugins.counting import nova_deployments

UNITS = ("instances", "VCPU", "MEMORY_MB")


def new():
    return str(uuid.uuid4())


@databases.on_each_database
class TestLegacyCell(nova_deployments.NovaDeploymentTestCase):

    def setUp(self):
        super().setUp()
        self.one, self.two = self.cell("one"), self.cell("two")

    def driver(self, **options):
        return LegacyCellCounting(self.conf(**options))

    def count(self, driver, *projects, units=UNITS, **options):
        return driver.count(self.ctx, projects, units=units, **options)

    def break_(self, cell):
        """Let a cell's database answer no more; it forgets what it had."""
        cell.execute(sa.text("DROP TABLE instances"))

    def test_one_query_of_each_cell(self):
        """However many projects; the user's share is in the same one."""
        for number in range(5):
            self.put(new(), self.one, project=f"p{number}", user="user")
        self.put(new(), self.one, project="p0", user="second", vcpus=7)
        driver = self.driver()
        self.count(driver, "p0")
        cell = cell_databases.CellDatabases(self.conf())
        asked = [round_trips.Statements(cell.of(self.ctx, each).database)
                 for each in cell.cells(self.ctx)]
        count = self.count(driver, "p0", user_id="second")
        self.assertEqual((8, 7), (count.projects["p0"]["VCPU"], count.user["VCPU"]))
        self.assertEqual([1, 1], [len(each.taken("instances")) for each in asked])
        self.count(driver, *(f"p{number}" for number in range(5)))
        self.assertEqual([1, 1], [len(each.taken("instances")) for each in asked])
        self.assertEqual(5, len(driver.count_all(self.ctx, units=UNITS).projects))
        self.assertEqual([1, 1], [len(each.taken("instances")) for each in asked])

    def test_more_projects_than_a_list_should_have(self):
        self.put(new(), self.one, project="p7", vcpus=3)
        self.put(new(), self.two, project="somebody else")
        count = self.count(self.driver(), *(f"p{number}" for number in range(2000)))
        self.assertEqual({"p7": {"instances": 1, "VCPU": 3, "MEMORY_MB": 10}}, count.projects)

    def test_sources(self):
        self.put(new(), self.one)
        count = self.count(self.driver(), "project")
        self.assertEqual("legacy_cell", count.source)
        self.assertEqual({"api_database", "one", "two"}, set(count.seconds))

    def test_what_it_counts(self):
        """Dedicated processors are VCPU; what is not in a cell's tables is not told."""
        driver = self.driver()
        self.assertEqual({"PCPU": "VCPU"}, dict(driver.folded))
        self.put(new(), self.one)
        count = self.count(driver, "project", units=["VCPU", "PCPU", "DISK_GB", "consumers"])
        self.assertEqual({"VCPU": 1, "consumers": 1}, count.projects["project"])

    def test_no_cells(self):
        """Nobody to ask is no answer, and certainly not 0."""
        self.api(sa.text("DELETE FROM cell_mappings"))
        error = self.assertRaises(errors.Unavailable, self.count, self.driver(), "project")
        self.assertIn("count_usage_from_placement", str(error))

    def test_it_sees_new_cells(self):
        driver = self.driver()
        self.put(new(), self.one)
        self.assertEqual(1, self.count(driver, "project").projects["project"]["instances"])
        self.put(new(), self.cell("three"))
        self.assertEqual(2, self.count(driver, "project").projects["project"]["instances"])

    def test_a_transaction_of_the_caller_is_none_of_its_business(self):
        self.put(new(), self.one)
        with db.read(self.ctx):
            self.assertEqual(
                1, self.count(self.driver(), "project").projects["project"]["instances"])

    # Missing cells ------------------------------------------------------------

    def lose(self, **options):
        """Count, lose a cell, and return the driver."""
        self.put(new(), self.one, vcpus=1)
        self.put(new(), self.two, vcpus=2)
        driver = self.driver(**options)
        self.assertEqual(3, self.count(driver, "project", user_id="user").user["VCPU"])
        self.break_(self.two)
        return driver

    def test_a_missing_cell_is_named(self):
        """Whatever is done about it; and it is not counted unless that was asked for."""
        for choice in ("refuse", "allow"):
            driver = self.lose(quota__on_missing_cell=choice)
            count = self.count(driver, "project", user_id="user")
            (missing,) = count.missing_cells
            self.assertEqual(("two", self.two.uuid, None),
                             (missing.name, missing.uuid, missing.known_since_seconds))
            self.assertEqual(count.projects["project"], count.user)
            self.assertIn("two", count.seconds)
            (missing,) = driver.count_all(self.ctx, units=UNITS).missing_cells
            self.assertEqual("two", missing.name)
            nova_deployments.empty(self.two.url)
            self.one.execute(sa.text("DELETE FROM instances"))

    def test_last_known(self):
        driver = self.lose(quota__on_missing_cell="last_known")
        time.sleep(0.05)
        for options in ({}, {"user_id": "user"}):
            count = self.count(driver, "project", **options)
            self.assertEqual({"instances": 2, "VCPU": 3, "MEMORY_MB": 20},
                             count.projects["project"])
            (missing,) = count.missing_cells
            self.assertEqual("two", missing.name)
            self.assertGreaterEqual(missing.known_since_seconds, 0.05)
            self.assertLess(missing.known_since_seconds, 60)
        self.assertEqual(3, count.user["VCPU"])

    def test_last_known_is_what_was_said_last(self):
        """What the other cells say is new; the missing one comes back with its own."""
        driver = self.lose(quota__on_missing_cell="last_known")
        self.put(new(), self.one, vcpus=10)
        self.assertEqual(13, self.count(driver, "project").projects["project"]["VCPU"])
        nova_deployments.empty(self.two.url)
        count = self.count(driver, "project")
        self.assertEqual((11, []), (count.projects["project"]["VCPU"], list(count.missing_cells)))

    def test_not_everything_is_known(self):
        """What was never asked about is not known: nothing stands in, and it is told."""
        driver = self.lose(quota__on_missing_cell="last_known")
        for ask in (
            lambda: self.count(driver, "other"),
            lambda: self.count(driver, "project", user_id="other"),
            lambda: self.count(driver, "project", "other"),
            lambda: driver.count_all(self.ctx, units=UNITS),
        ):
            (missing,) = ask().missing_cells
            self.assertIsNone(missing.known_since_seconds)

    def test_all_projects_are_known(self):
        """An answer about all stands in for one about each."""
        driver = self.driver(quota__on_missing_cell="last_known")
        self.put(new(), self.two, vcpus=2)
        self.put(new(), self.two, vcpus=5, project="other")
        expected = driver.count_all(self.ctx, units=UNITS).projects
        self.break_(self.two)
        self.assertEqual(expected, driver.count_all(self.ctx, units=UNITS).projects)
        self.assertEqual(5, self.count(driver, "other").projects["other"]["VCPU"])
        count = self.count(driver, "nobody")
        self.assertIsNotNone(count.missing_cells[0].known_since_seconds)
        self.assertEqual(0, count.projects.get("nobody", {}).get("VCPU", 0))

    def test_what_shall_not_count_is_in_what_is_known(self):
        """Never less than there is: what a cell said is not known by instance."""
        driver = self.lose(quota__on_missing_cell="last_known")
        self.assertEqual(3, self.count(
            driver, "project", without=[new()]).projects["project"]["VCPU"])
        nova_deployments.empty(self.two.url)
        made = new()
        self.put(made, self.two, vcpus=2)
        self.assertEqual(1, self.count(
            driver, "project", without=[made]).projects["project"]["VCPU"])
        self.break_(self.two)
        self.assertEqual(3, self.count(driver, "project").projects["project"]["VCPU"])

    def test_forget(self):
        driver = self.lose(quota__on_missing_cell="last_known")
        driver.forget()
        (missing,) = self.count(driver, "project").missing_cells
        self.assertIsNone(missing.known_since_seconds)


class TestTime(nova_deployments.NovaDeploymentTestCase):

    def test_twenty_cells_cost_the_slowest_not_the_sum(self):
        for number in range(20):
            self.put(new(), self.cell(f"cell{number}"))
        in_cell = counts.count_in_cell

        def slow(cell, *arguments, **options):
            time.sleep(0.2)
            return in_cell(cell, *arguments, **options)

        self.patch(counts, "count_in_cell", slow)
        started = time.monotonic()
        count = LegacyCellCounting(self.conf()).count(self.ctx, ["project"], units=UNITS)
        took = time.monotonic() - started
        self.assertEqual(20, count.projects["project"]["instances"])
        self.assertLess(took, 0.2 * 20 / 2)
        self.assertTrue(all(count.seconds[f"cell{number}"] >= 0.2 for number in range(20)))

    def test_a_cell_that_hangs_is_missing_after_the_deadline(self):
        self.put(new(), self.cell("quick"))
        slow = self.cell("slow")
        in_cell = counts.count_in_cell

        def ask(cell, *arguments, **options):
            if cell.database.url.database == str(slow.path):
                time.sleep(3)
            return in_cell(cell, *arguments, **options)

        self.patch(counts, "count_in_cell", ask)
        started = time.monotonic()
        count = LegacyCellCounting(self.conf(cells__timeout_seconds=1)).count(
            self.ctx, ["project"], units=UNITS)
        self.assertLess(time.monotonic() - started, 2.5)
        self.assertEqual(["slow"], [each.name for each in count.missing_cells])
        self.assertEqual(1, count.projects["project"]["instances"])


class TestLastKnown(base.TestCase):
    """What is kept, by a clock that a test moves."""

    def setUp(self):
        super().setUp()
        self.now = 100.0
        self.known = last_known.LastKnown(lambda: self.now)

    def recall(self, projects, user=None):
        found = self.known.recall("cell", projects, user)
        return found and (
            {project: amounts.vcpus for project, amounts in found.counted.projects.items()},
            found.counted.user.vcpus, found.seconds)

    def note(self, vcpus, projects, user=None, of_user=0):
        self.known.note("cell", CellCount(
            {project: InstanceTotals(1, amount, 0) for project, amount in vcpus.items()},
            InstanceTotals(1, of_user, 0)), projects, user)

    def test_the_age_is_that_of_the_oldest_part(self):
        self.note({"a": 1}, ["a"])
        self.now = 110.0
        self.note({"b": 2}, ["b", "c"])
        self.now = 115.0
        self.assertEqual(({"a": 1, "b": 2, "c": 0}, 0, 15.0), self.recall(["a", "b", "c"]))
        self.assertEqual(({"b": 2}, 0, 5.0), self.recall(["b"]))
        self.assertIsNone(self.recall(["d"]))
        self.assertIsNone(self.recall(None))
        self.assertIsNone(self.known.recall("other", ["a"], None))

    def test_the_newer_of_both(self):
        self.note({"a": 1}, ["a"])
        self.now = 110.0
        self.note({"a": 2, "b": 5}, None)
        self.assertEqual(({"a": 2}, 0, 0.0), self.recall(["a"]))
        self.now = 120.0
        self.note({"a": 3}, ["a"])
        self.assertEqual(({"a": 3}, 0, 0.0), self.recall(["a"]))
        self.assertEqual(({"a": 3, "b": 5}, 0, 10.0), self.recall(None))

    def test_users(self):
        self.note({"a": 3}, ["a"], "user", 2)
        self.assertEqual(({"a": 3}, 2, 0.0), self.recall(["a"], "user"))
        self.assertIsNone(self.recall(["a"], "other"))
        self.note({"a": 3}, None)
        self.assertIsNone(self.recall(["a"], "other"))

    def test_it_does_not_grow_for_ever(self):
        self.patch(last_known, "_MOST_KEPT", 3)
        for number in range(5):
            self.note({str(number): number}, [str(number)])
        self.assertIsNone(self.recall(["1"]))
        self.assertIsNotNone(self.recall(["2"]))
