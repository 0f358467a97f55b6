"""What an instance counts in each state, by nova's own tables (spec nova_quota §1)."""

import uuid

import sqlalchemy as sa

from placement_core.cells import tables
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from placement_plugins.counting.placement import PlacementCounting
from tests import databases, nova_databases
from tests.plugins.counting import nova_deployments

UNITS = ("instances", "VCPU", "PCPU", "MEMORY_MB")


@databases.on_each_database
class TestStates(nova_deployments.NovaDeploymentTestCase):
    """Every state, in the schema that nova-manage makes."""

    def setUp(self):
        super().setUp()
        self.api_url = nova_databases.api(self.kind)
        self.cell0 = self.cell("cell0", url=nova_databases.cell(self.kind, "cell0"))
        self.cell1 = self.cell("cell1", url=nova_databases.cell(self.kind, "cell1"))
        self.cell2 = self.cell("cell2", url=nova_databases.cell(self.kind, "cell2"))

    def api(self, statement, values=None):
        engine = sa.create_engine(self.api_url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            return connection.execute(statement, values)

    def conf(self, **options):
        return super().conf(api_database__connection=self.api_url, **options)

    def counted(self, driver, **options):
        """Return instances, cores and ram of the project, and of the user."""
        count = driver(self.conf(**options)).count(
            self.ctx, ["project"], units=UNITS, user_id="user")
        self.assertEqual([], list(count.missing_cells))
        return [
            (used.get("instances", 0), used.get("VCPU", 0) + used.get("PCPU", 0),
             used.get("MEMORY_MB", 0))
            for used in (count.projects.get("project", {}), count.user)]

    def assert_counts(self, legacy, placement):
        self.assertEqual([legacy, legacy], self.counted(LegacyCellCounting))
        self.assertEqual([placement, placement], self.counted(PlacementCounting))

    def instance(self, *, cell=None, gone=False, held=True, **values):
        """Make an instance of 2 cores and 20 MiB; return its uuid."""
        made = str(uuid.uuid4())
        cell = cell or self.cell1
        self.map(made, cell, gone=gone)
        self.put(made, cell, **{"vcpus": 2, "memory_mb": 20, **values})
        if held:
            self.claim(made, {"VCPU": 2, "MEMORY_MB": 20})
        return made

    def test_it_is_novas_schema(self):
        """The tables are nova's: they have columns that ours lack."""
        columns = {each["name"] for each in sa.inspect(
            sa.create_engine(self.cell1.url)).get_columns("instances")}
        self.assertLessEqual({"launch_index", "ephemeral_key_uuid"}, columns)
        self.assertTrue(sa.inspect(sa.create_engine(self.api_url)).has_table("build_requests"))

    def test_building(self):
        self.map(str(uuid.uuid4()), None)
        self.assert_counts((0, 0, 0), (1, 0, 0))

    def test_error_never_scheduled(self):
        self.instance(cell=self.cell0, held=False, vm_state="error")
        self.assert_counts((1, 2, 20), (1, 0, 0))

    def test_running_or_not(self):
        for number, state in enumerate(("active", "stopped", "shelved", "paused", None), 1):
            self.instance(vm_state=state)
            self.assert_counts((number, 2 * number, 20 * number),
                               (number, 2 * number, 20 * number))

    def test_shelved_offloaded(self):
        self.instance(vm_state="shelved_offloaded", held=False)
        self.assert_counts((1, 2, 20), (1, 0, 0))

    def test_resized_and_not_confirmed(self):
        made, migration = self.instance(vm_state="resized"), str(uuid.uuid4())

        def write(consumer, **amounts):
            return AllocationWrite(
                consumer, {self.host.uuid: amounts} if amounts else {}, "project", "user")

        allocations.replace(self.ctx, [write(made), write(migration, VCPU=2, MEMORY_MB=20)])
        allocations.replace(self.ctx, [write(made, VCPU=3, MEMORY_MB=10)])
        self.cell1.execute(sa.text("UPDATE instances SET vcpus = 3, memory_mb = 10"))
        self.assert_counts((1, 3, 10), (1, 5, 30))
        once = (1, 3, 20)
        self.assertEqual([once, once], self.counted(PlacementCounting, quota__count_moves="once"))
        self.assertEqual([once, once], self.counted(PlacementCounting, quota__guard="audit"))

    def test_soft_deleted(self):
        self.instance(vm_state="soft-delete", gone=True)
        self.assert_counts((0, 0, 0), (0, 2, 20))

    def test_deleted(self):
        self.instance(vm_state="deleted", deleted=1, gone=True, held=False)
        self.assert_counts((0, 0, 0), (0, 0, 0))

    def test_evacuated_and_not_cleaned_up(self):
        made = self.instance()
        other = factories.provider(self.ctx, inventory={
            name: InventoryValues(total=100) for name in ("VCPU", "MEMORY_MB")})
        amounts = {"VCPU": 2, "MEMORY_MB": 20}
        allocations.replace(self.ctx, [AllocationWrite(
            made, {self.host.uuid: amounts, other.uuid: amounts}, "project", "user")])
        self.assert_counts((1, 2, 20), (1, 4, 40))

    def test_hidden_copy(self):
        made = self.instance()
        self.put(made, self.cell2, vcpus=2, memory_mb=20, hidden=True)
        self.assert_counts((1, 2, 20), (1, 2, 20))

    def test_hidden_is_not_said(self):
        self.instance(hidden=None)
        self.assert_counts((1, 2, 20), (1, 2, 20))

    def test_dedicated_processors(self):
        made = self.instance()
        self.claim(made, {"PCPU": 2, "MEMORY_MB": 20})
        self.assert_counts((1, 2, 20), (1, 2, 20))

    def test_a_cell_where_nothing_new_is_scheduled(self):
        self.api(sa.update(tables.cell_mappings).values(disabled=True))
        self.instance()
        self.assert_counts((1, 2, 20), (1, 2, 20))

    def test_without_an_amount(self):
        self.instance(vcpus=None, memory_mb=None, held=False)
        self.assert_counts((1, 0, 0), (1, 0, 0))

    def test_not_migrated(self):
        """Counted the legacy way, dedicated processors still told apart."""
        made = self.instance()
        self.instance(held=False, vm_state="shelved_offloaded")
        self.claim(made, {"VCPU": 1, "PCPU": 1, "MEMORY_MB": 20})
        for values in ({"user_id": None}, {"queued_for_delete": None}):
            self.api(sa.update(tables.instance_mappings).values(
                user_id="user", queued_for_delete=False))
            self.api(sa.update(tables.instance_mappings).where(
                tables.instance_mappings.c.instance_uuid == made).values(**values))
            self.assert_counts((2, 4, 40), (2, 4, 40))
            count = PlacementCounting(self.conf()).count(
                self.ctx, ["project"], units=UNITS, user_id="user")
            self.assertEqual(
                {"instances": 2, "VCPU": 3, "PCPU": 1, "MEMORY_MB": 40},
                dict(count.projects["project"]))
            self.assertEqual(count.projects["project"], count.user)
