"""The queue of writes that the service has by its configuration, and what it counts."""

from __future__ import annotations

import functools

import fixtures

from placement_core import metrics, services
from placement_core.placement import errors
from placement_core.testing import factories
from tests import databases, scraping, write_groups
from tests.functional.placement import claims
from tests.http import base as http_base


@databases.on_each_database
class TestOfTheService(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.groups = self.useFixture(write_groups.Groups())
        self.host = self.provider(VCPU=8)
        self.consumers = sorted(factories.new_uuid() for _ in range(5))
        # Writes that insert the same project at once may deadlock, and one is attempted alone.
        self.claim({self.host: {"VCPU": 1}}, seen=None, consumer=factories.new_uuid())

    def build(self, options=None):
        parts = services.build(http_base.configuration(
            self.database.settings.connection, options))
        self.addCleanup(parts.database.dispose)
        return parts

    def put(self, parts, consumer, amount):
        parts.claims.replace(parts.context(), [
            self.write({self.host: {"VCPU": amount}}, consumer=consumer, seen=None)])

    def put_together(self, parts, amounts=(1,) * 5):
        """Write beside each other; return what became of the writes."""
        return write_groups.run(parts.claims._queue, *(
            functools.partial(self.put, parts, consumer, amount)
            for consumer, amount in zip(self.consumers, amounts, strict=True)))

    def test_by_default_all_share_a_transaction(self):
        self.assertEqual([None] * 5, self.put_together(self.build()))
        self.assertEqual([5], self.groups.sizes)
        self.assertEqual(1, write_groups.count_transactions(self.database, self.consumers))

    def test_the_option_bounds_a_group(self):
        self.assertEqual([None] * 5, self.put_together(self.build(
            {("placement", "max_grouped_consumers"): 3})))
        self.assertEqual([3, 2], self.groups.sizes)
        self.assertEqual(2, write_groups.count_transactions(self.database, self.consumers))

    def test_one_gives_each_write_its_own_transaction(self):
        self.assertEqual([None] * 5, self.put_together(self.build(
            {("placement", "max_grouped_consumers"): 1})))
        self.assertEqual([], self.groups.sizes)
        self.assertEqual(5, write_groups.count_transactions(self.database, self.consumers))

    def test_metrics(self):
        """One group, of which two are refused in it; a write that is alone is not counted."""
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()
        parts = self.build({("metrics", "enabled"): True})
        outcomes = self.put_together(parts, (1, 9, 2, 9, 3))
        self.assertEqual([type(None), errors.CapacityExceeded] * 2 + [type(None)],
                         [type(each) for each in outcomes])
        self.put(parts, self.consumer, 1)
        counted = scraping.numbers(scraping.shown()[1])
        self.assertEqual((1, 5, 2), tuple(counted[name,] for name in (
            "write_group_size_count", "write_group_size_sum",
            "write_group_members_taken_out_total")))
