"""Both counting drivers keep the contract of counting drivers."""

from placement_core.plugin_api import loader
from placement_core.plugin_api.counting import CountingDriver
from placement_core.testing import counting as contract
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from placement_plugins.counting.placement import PlacementCounting
from tests import base, databases
from tests.plugins.counting import nova_deployments


class _Contract(contract.CountingContract):
    """Instances are spread over two cells."""

    driver: type[CountingDriver]

    def given(self, instances):
        cells = [self.cell(), self.cell()]
        for number, instance in enumerate(instances):
            self.run_instance(instance, cells[number % 2])
        return self.driver(self.conf()), self.ctx


@databases.on_each_database
class TestLegacyCell(_Contract, nova_deployments.NovaDeploymentTestCase):
    driver = LegacyCellCounting


@databases.on_each_database
class TestPlacement(_Contract, nova_deployments.NovaDeploymentTestCase):
    driver = PlacementCounting
    classes = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LICENCE")


class TestPlacementWithConsumers(TestPlacement):
    """What moves counts once: another way through the database."""

    options = {("quota", "count_moves"): "once"}


class TestEntryPoints(base.TestCase):

    def test_they_load(self):
        for name, driver in (("legacy_cell", LegacyCellCounting),
                             ("placement", PlacementCounting)):
            self.assertIs(driver, loader.load(
                "placement_core.counting", name, CountingDriver, option="[quota]"))
