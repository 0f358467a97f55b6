"""Members of server groups, whichever driver is asked."""

import uuid

import sqlalchemy as sa

from placement_core.cells import databases as cell_databases, errors, server_groups, tables
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from placement_plugins.counting.placement import PlacementCounting
from tests import databases, nova_databases, round_trips
from tests.plugins.counting import nova_deployments

DRIVERS = {"legacy_cell": LegacyCellCounting, "placement": PlacementCounting}


@databases.on_each_database
class TestMembers(nova_deployments.NovaDeploymentTestCase):

    def setUp(self):
        super().setUp()
        self.here = self.cell("here")

    def member(self, *, user="user", mapped="same", gone=False, cell=None, **values):
        made = str(uuid.uuid4())
        cell = cell or self.here
        self.map(made, cell, user=user if mapped == "same" else mapped, gone=gone)
        self.put(made, cell, user=user, **values)
        return made

    def assert_members(self, number, uuids, *, source=None, missing=(), user="user"):
        for name, driver in DRIVERS.items():
            counting = driver(self.conf())
            self.assertTrue(counting.counts_members)
            found = counting.server_group_members(self.ctx, uuids, user)
            self.assertEqual(
                (number, source or name, list(missing)),
                (found.members, found.source, [each.name for each in found.missing_cells]))
            self.assertIn("api_database", found.seconds)

    def test_by_the_mappings_alone(self):
        """Cells are not asked; those that are queued for deletion do not count."""
        uuids = [self.member(), self.member(), self.member(gone=True),
                 self.member(user="other"), self.member(user="other", gone=True)]
        self.member()
        self.here.execute(sa.text("DROP TABLE instances"))
        self.assert_members(2, uuids)
        self.assert_members(1, uuids, user="other")
        self.assert_members(0, uuids, user="nobody")

    def test_one_statement(self):
        uuids = [self.member(), self.member(gone=True)]
        driver = PlacementCounting(self.conf())
        asked = round_trips.Statements(self.database)
        driver.server_group_members(self.ctx, uuids, "user")
        self.assertEqual(1, len(asked.taken("SELECT")))

    def test_members_that_were_not_migrated(self):
        """Only those are looked for in the cells; what is no member matters to nobody."""
        self.member(mapped=None)
        uuids = [self.member(), self.member(gone=True)]
        self.assert_members(1, uuids)
        uuids += [
            self.member(mapped=None), self.member(mapped=None, user="other"),
            self.member(gone=None), self.member(gone=None, deleted=1),
            self.member(mapped=None, gone=None, vm_state="soft-delete"),
            self.member(gone=None, user="other")]
        self.assert_members(3, uuids, source="legacy_cell")

    def test_a_missing_cell(self):
        """It is named, and hides those members alone whose mapping does not say it."""
        down = self.cell("down")
        uuids = [self.member(cell=down), self.member(), self.member(mapped=None)]
        down.execute(sa.text("DROP TABLE instances"))
        self.assert_members(3, uuids, source="legacy_cell")
        self.map(unknown := str(uuid.uuid4()), down, user=None)
        self.assert_members(3, [*uuids, unknown], source="legacy_cell", missing=["down"])

    def test_a_member_in_no_cell_yet(self):
        """It is the user's as far as anybody knows, so it counts."""
        made = str(uuid.uuid4())
        self.map(made, None, user=None)
        self.assert_members(1, [made])
        self.api(sa.update(tables.instance_mappings).values(user_id="other"))
        self.assert_members(0, [made])
        self.assert_members(1, [made], user="other")

    def test_any_text(self):
        self.assert_members(0, ["", "x\0y", "\u2603", "\ud800"])


@databases.on_each_database
class TestServerGroups(nova_deployments.NovaDeploymentTestCase):
    """Groups in our tables."""

    def setUp(self):
        super().setUp()
        self.databases = cell_databases.CellDatabases(self.conf())

    def group(self, name, *members, project="project"):
        made = str(uuid.uuid4())
        (id_,) = self.api(sa.insert(tables.instance_groups), {
            "uuid": made, "name": name, "project_id": project,
            "user_id": "user"}).inserted_primary_key
        for member in members:
            self.api(sa.insert(tables.instance_group_member),
                     {"instance_uuid": member, "group_id": id_})
        return made

    def members(self, group, project_id="project"):
        return server_groups.list_members(self.ctx, self.databases, group, project_id=project_id)

    def test_by_uuid_and_by_name(self):
        made = self.group("web", "one", "two")
        empty = self.group("empty")
        self.assertEqual(["one", "two"], self.members(made))
        self.assertEqual(["one", "two"], self.members("web"))
        self.assertEqual([], self.members(empty))
        self.assertEqual([], self.members("empty"))

    def test_unknown(self):
        made = self.group("web")
        for group, project in (
            ("nothing", "project"), (made, "other"), ("web", "other"), ("x\0y", "project"),
            ("\ud800", "project"), ("", "project"), ("\u2603", "project"),
        ):
            self.assertRaises(errors.UnknownServerGroup, self.members, group, project)

    def test_several_of_a_name(self):
        first, second = self.group("web", "one"), self.group("web", "two")
        self.group("web", "three", project="other")
        error = self.assertRaises(errors.AmbiguousServerGroup, self.members, "web")
        self.assertEqual(sorted([first, second]), error.uuids)
        self.assertEqual(["two"], self.members(second))
        self.assertEqual(["three"], self.members("web", "other"))


@databases.on_each_database
class TestServerGroupsOfNova(TestServerGroups):
    """Groups in nova's own tables."""

    def setUp(self):
        super().setUp()
        self.url = nova_databases.api(self.kind)
        self.databases = cell_databases.CellDatabases(self.conf(
            api_database__connection=self.url))

    def api(self, statement, values=None):
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            return connection.execute(statement, values)
