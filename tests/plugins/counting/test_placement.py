"""The driver ``placement``, with our own placement."""

import uuid

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.cells import tables
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.placement.usage.usage_index import UsageIndex
from placement_plugins.counting.placement import PlacementCounting
from tests import databases, round_trips
from tests.plugins.counting import nova_deployments

UNITS = ("instances", "VCPU", "MEMORY_MB")


def new():
    return str(uuid.uuid4())


@databases.on_each_database
class TestPlacement(nova_deployments.NovaDeploymentTestCase):

    def setUp(self):
        super().setUp()
        self.here = self.cell()
        self.now = 1000.0
        self.driver = PlacementCounting(self.conf(), clock=lambda: self.now)
        self.driver.use_index(UsageIndex(self.database))

    def instance(self, vcpus=1, *, project="project", user="user", mapped="same", gone=False):
        """Make an instance; its mapping may lack the user (None)."""
        made = new()
        self.map(made, self.here, project=project, gone=gone,
                 user=user if mapped == "same" else mapped)
        self.put(made, self.here, project=project, user=user, vcpus=vcpus,
                 memory_mb=10 * vcpus)
        self.claim(made, {"VCPU": vcpus, "MEMORY_MB": 10 * vcpus}, project=project, user=user)
        return made

    def count(self, *projects, units=UNITS, driver=None, **options):
        return (driver or self.driver).count(self.ctx, projects, units=units, **options)

    def migrate(self):
        self.api(sa.update(tables.instance_mappings).values(
            user_id="user", queued_for_delete=False))

    # Questions ------------------------------------------------------------------

    def test_usage_questions(self):
        """One about the project; one more where, and only where, a user is asked about."""
        self.instance()
        self.count("project")
        asked = round_trips.Statements(self.database)
        self.count("project")
        self.assertEqual(1, len(asked.taken("usage_counters")))
        count = self.count("project", user_id="user")
        self.assertEqual(2, len(asked.taken("usage_counters")))
        self.assertEqual({"project": {"instances": 1, "VCPU": 1, "MEMORY_MB": 10}},
                         count.projects)
        self.count("project", user_id="user", without=[new()])
        self.assertEqual(2, len(asked.taken("usage_counters", "allocations")))

    def test_statements(self):
        """A migrated project: its mappings, its usage. No cell is asked for anything."""
        self.instance()
        self.count("project")
        asked = round_trips.Statements(self.database)
        self.count("project", user_id="user")
        self.assertEqual(3, len(asked.taken("SELECT")))
        self.count("project", units=["VCPU"])
        self.assertEqual(1, len(asked.taken("SELECT")))
        self.count("project", units=["instances"])
        self.assertEqual(1, len(asked.taken("SELECT")))

    def test_seconds(self):
        """It is told what was asked, and how long that took."""
        self.instance()
        count = self.count("project")
        self.assertEqual({"api_database", "placement"}, set(count.seconds))
        self.assertEqual("placement", count.source)
        self.instance(project="stale", mapped=None)
        count = self.count("stale", units=["instances", "MEMORY_MB"])
        self.assertEqual({"api_database", "cell0"}, set(count.seconds))
        self.assertEqual("legacy_cell", count.source)

    def test_many_projects_cost_what_few_do(self):
        for number in range(20):
            self.instance(project=f"p{number}")
        asked = round_trips.Statements(self.database)
        self.driver.count_all(self.ctx, units=UNITS)
        asked.taken()
        count = self.driver.count_all(self.ctx, units=UNITS)
        self.assertEqual(20, len(count.projects))
        # Who is not migrated, the mappings, and whether the index is fresh.
        self.assertEqual(3, len(asked.taken("SELECT")))
        self.assertEqual(
            count.projects, self.count(*(f"p{number}" for number in range(20))).projects)

    # What was not migrated -------------------------------------------------------

    def test_only_the_project_itself_is_counted_in_the_cells(self):
        """Somebody else's old mapping changes nothing (N10)."""
        self.instance(2)
        self.instance(4, project="stale", mapped=None)
        self.here.execute(sa.text("UPDATE instances SET vcpus = 100"))
        self.assertEqual(2, self.count("project").projects["project"]["VCPU"])
        self.assertEqual(100, self.count("stale").projects["stale"]["VCPU"])
        both = self.count("project", "stale", units=[*UNITS, "DISK_GB"])
        self.assertEqual("placement+legacy_cell", both.source)
        self.assertEqual(
            {"project": {"instances": 1, "VCPU": 2, "MEMORY_MB": 20},
             "stale": {"instances": 1, "VCPU": 100, "MEMORY_MB": 40}}, both.projects)
        self.assertEqual(both.projects, self.driver.count_all(self.ctx, units=UNITS).projects)

    def test_what_counts_as_migrated(self):
        """A mapping without its flag is not; one without a user, while it lives."""
        for user, gone, source in (
            (None, False, "legacy_cell"), (None, None, "legacy_cell"),
            ("user", None, "legacy_cell"), (None, True, "placement"), ("user", True, "placement"),
            ("user", False, "placement"),
        ):
            project = f"{user}-{gone}"
            self.instance(project=project, mapped=user, gone=gone)
            self.assertEqual(source, self.count(project).source, project)
        self.assertEqual("placement", self.count("nobody").source)

    def test_migrated_is_kept_and_not_migrated_asked_again(self):
        self.instance(mapped=None)
        asked = round_trips.Statements(self.database)
        for _ in range(2):
            self.assertEqual("legacy_cell", self.count("project").source)
            self.assertEqual(1, len(asked.taken("DISTINCT")))
        self.migrate()
        self.assertEqual("placement", self.count("project").source)
        self.assertEqual(1, len(asked.taken("DISTINCT")))
        self.assertEqual("placement", self.count("project").source)
        self.assertEqual(0, len(asked.taken("DISTINCT")))
        self.api(sa.update(tables.instance_mappings).values(user_id=None))
        self.assertEqual("placement", self.count("project").source)
        self.driver.forget()
        self.assertEqual("legacy_cell", self.count("project").source)

    def test_mappings_that_are_copied_later(self):
        """A project that has none is migrated; a copy may bring some that are not."""
        self.assertEqual("placement", self.count("project").source)
        self.instance(mapped=None)
        self.now += 10
        self.assertEqual("legacy_cell", self.count("project").source)

    def test_one_statement_finds_those_of_many_projects(self):
        for number in range(20):
            self.instance(project=f"p{number}", mapped=None if number % 2 else "same")
        asked = round_trips.Statements(self.database)
        self.count(*(f"p{number}" for number in range(20)))
        self.assertEqual(1, len(asked.taken("DISTINCT")))

    def test_the_log_says_so_once(self):
        self.instance(mapped=None)
        for _ in range(3):
            self.count("project")
        self.assertEqual(1, self.log.output.count("not migrated"))
        self.assertIn("placement-core db online_data_migrations", self.log.output)

    def test_a_missing_cell_matters_to_those_alone(self):
        self.instance(2)
        self.instance(4, project="stale", mapped=None)
        self.cell("down", url="sqlite:////nowhere/at/all.sqlite")
        self.assertEqual([], list(self.count("project").missing_cells))
        self.assertEqual(["down"], [each.name for each in self.count("stale").missing_cells])
        all_ = self.driver.count_all(self.ctx, units=UNITS)
        self.assertEqual(["down"], [each.name for each in all_.missing_cells])

    def test_other_classes_of_a_project_that_was_not_migrated(self):
        """Cells do not know them, so placement is asked."""
        made = self.instance(4, mapped=None)
        self.claim(made, {"VCPU": 4, "DISK_GB": 7})
        count = self.count("project", units=["VCPU", "DISK_GB", "consumers"], user_id="user")
        self.assertEqual({"VCPU": 4, "DISK_GB": 7, "consumers": 1}, count.projects["project"])
        self.assertEqual(count.projects["project"], count.user)
        self.assertEqual({"placement", "api_database", "cell0"}, set(count.seconds))

    def test_dedicated_processors_are_no_vcpu(self):
        """The same VCPU is counted, whichever other units are asked for."""
        made = self.instance(10, mapped=None)
        self.claim(made, {"VCPU": 2, "PCPU": 8})
        for units in (["VCPU"], ["VCPU", "PCPU"], ["instances", "VCPU"]):
            expected = {"instances": 1, "VCPU": 2, "PCPU": 8}
            count = self.count("project", units=units, user_id="user")
            self.assertEqual({unit: expected[unit] for unit in units}, count.projects["project"])
            self.assertEqual(count.projects["project"], count.user)
        self.instance(1)
        count = self.driver.count_all(self.ctx, units=["VCPU"])
        self.assertEqual({"project": {"VCPU": 3}}, count.projects)

    def test_nothing_is_left_in_the_cells(self):
        """A project that cells know nothing of any more uses nothing."""
        self.map(new(), self.here, user=None)
        self.claim(new(), {"VCPU": 3})
        self.assertEqual(0, self.count("project").projects["project"]["VCPU"])
        self.assertEqual({}, self.driver.count_all(self.ctx, units=UNITS).projects)

    # What is held twice -----------------------------------------------------------

    def move(self, vcpus):
        """Begin to resize an instance of 4 VCPU; return it and its migration."""
        made, migration = self.instance(4), new()

        def write(consumer, **amounts):
            return AllocationWrite(
                consumer, {self.host.uuid: amounts} if amounts else {}, "project", "user")

        allocations.replace(self.ctx, [write(made), write(migration, VCPU=4, MEMORY_MB=40)])
        allocations.replace(self.ctx, [write(made, VCPU=vcpus, MEMORY_MB=10)])
        return made, migration

    def used(self, *, count_moves, **options):
        """Return VCPU and consumers of the project, the same whoever is asked."""
        driver = PlacementCounting(self.conf(quota__count_moves=count_moves))
        units = ("VCPU", "consumers")
        one = self.count("project", driver=driver, units=units, user_id="user", **options)
        self.assertEqual(one.projects["project"], one.user)
        if not options:
            many = self.count("project", "other", driver=driver, units=units)
            self.assertEqual(one.projects, many.projects)
            self.assertEqual(one.projects, driver.count_all(self.ctx, units=units).projects)
        return one.user.get("VCPU", 0), one.user.get("consumers", 0)

    def test_what_moves(self):
        """Nova counts both halves; once is the larger. The instance is one either way."""
        self.move(6)
        self.assertEqual((10, 1), self.used(count_moves="twice"))
        self.assertEqual((6, 1), self.used(count_moves="once"))

    def test_what_shrinks_counts_what_a_revert_needs(self):
        self.move(1)
        self.assertEqual((4, 1), self.used(count_moves="once"))

    def test_what_moves_and_shall_not_count(self):
        """Half of a pair: the other half counts, whole."""
        made, migration = self.move(6)
        self.instance(1)
        self.assertEqual((7, 2), self.used(count_moves="once"))
        for left_out, expected in (
            ([made], (5, 2)), ([migration], (7, 2)), ([made, migration], (1, 1)),
        ):
            for count_moves in ("once", "twice"):
                self.assertEqual(
                    expected, self.used(count_moves=count_moves, without=left_out), left_out)

    # Inside a transaction ------------------------------------------------------

    def test_it_counts_what_the_transaction_wrote(self):
        """``transactional``: usage stands as the open transaction has it."""
        self.assertTrue(self.driver.transactional)
        self.instance(2, project="other")
        self.count("project", "other")
        with db.write(self.ctx):
            self.claim(new(), {"VCPU": 3})
            for projects in (["project"], ["project", "other"]):
                count = self.count(*projects, units=["VCPU", "consumers"])
                self.assertEqual({"VCPU": 3, "consumers": 1}, count.projects["project"])

    def test_a_user_in_several_projects(self):
        self.assertRaises(ValueError, self.count, "one", "two", user_id="user")

    def test_the_database_does_not_answer(self):
        """There is no low number; and no cell is asked instead."""
        self.instance()
        driver = PlacementCounting(self.conf(
            api_database__connection="sqlite:////nowhere/at/all.sqlite"))
        self.assertRaises(errors.Unavailable, self.count, "project", driver=driver)
