"""``[quota]`` chooses the driver; what cannot be chosen stops the service in one line."""

from placement_core import errors, services
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from placement_plugins.counting.placement import PlacementCounting
from tests import base, databases
from tests.http import base as http


class TestChoice(base.TestCase):

    def build(self, **quota):
        conf = http.configuration(
            databases.settings("sqlite").connection,
            {("quota", name): value for name, value in quota.items()})
        parts = services.build(conf)
        self.addCleanup(parts.database.dispose)
        return parts.counting

    def test_by_default_cells_are_counted(self):
        self.assertIsInstance(self.build(), LegacyCellCounting)
        self.assertFalse(self.build().transactional)

    def test_from_placement(self):
        driver = self.build(count_usage_from_placement=True)
        self.assertIsInstance(driver, PlacementCounting)
        self.assertTrue(driver.transactional)

    def test_a_name_wins(self):
        self.assertIsInstance(self.build(
            count_usage_from_placement=True, counting_driver="legacy_cell"), LegacyCellCounting)
        self.assertIsInstance(self.build(counting_driver="placement"), PlacementCounting)

    def test_a_driver_that_is_not_there(self):
        error = self.assertRaises(
            errors.ConfigurationError, self.build, counting_driver="nobody")
        self.assertRegex(str(error), r"^\[quota\] counting_driver = nobody: no such driver; "
                                     r"installed: .*legacy_cell.*placement")
        self.assertNotIn("\n", str(error))

    def test_a_guard_needs_what_it_counts_itself(self):
        error = self.assertRaises(errors.ConfigurationError, self.build, guard="enforce")
        self.assertRegex(
            str(error), r"^\[quota\] guard = enforce: expected .*legacy_cell does not$")
        self.build(guard="enforce", count_usage_from_placement=True)
        self.build(guard="audit")
