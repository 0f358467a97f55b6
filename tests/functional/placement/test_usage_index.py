import random

from placement_core import db
from placement_core.changes import revisions
from placement_core.placement.usage import usage_index, usages
from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.testing import factories
from tests import databases, round_trips
from tests.functional.placement import claims

_PROJECTS = ("one", "two", "three", "four")
_CLASSES = ("VCPU", "MEMORY_MB", "CUSTOM_GPU", CONSUMERS)


@databases.on_each_database
class TestUsageIndex(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.index = UsageIndex(self.database)

    def of(self, *projects):
        """Return what the projects use together, by class; without zeros."""
        found = self.index.usages(self.ctx)
        together = ProjectSet(projects)
        amounts = {name: found.total(together, name) for name in _CLASSES}
        return {name: amount for name, amount in amounts.items() if amount}

    def counted(self, *projects):
        """Return the same from the usage counters."""
        amounts = {}
        for project in projects:
            for usage in usages.for_project(self.ctx, project):
                for name, used in (*usage.resources.items(), (CONSUMERS, usage.consumer_count)):
                    amounts[name] = amounts.get(name, 0) + used
        return {name: amount for name, amount in amounts.items() if amount}

    def test_nothing_is_used(self):
        self.assertEqual({}, self.of(*_PROJECTS))

    def test_it_follows_every_claim(self):
        host = self.provider(VCPU=1000, MEMORY_MB=1000, CUSTOM_GPU=1000)
        chance = random.Random(7)
        consumers = [factories.new_uuid() for _ in range(8)]
        for _ in range(40):
            amounts = {name: chance.randint(1, 9)
                       for name in chance.sample(("VCPU", "MEMORY_MB", "CUSTOM_GPU"), 2)}
            self.claim({host: amounts} if chance.random() < 0.8 else {},
                       consumer=chance.choice(consumers), project=chance.choice(_PROJECTS),
                       user=chance.choice(("anna", "berta")),
                       kind=chance.choice(("INSTANCE", None)))
            some = chance.sample(_PROJECTS, 2)
            self.assertEqual(self.counted(*some), self.of(*some))
        later = UsageIndex(self.database)
        self.index, followed = later, self.index.usages(self.ctx)
        for project in _PROJECTS:
            self.assertEqual(
                followed.total(ProjectSet([project]), "VCPU"),
                self.of(project).get("VCPU", 0))

    def test_versions_do_not_change(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 2}}, project="one")
        before = self.index.usages(self.ctx)
        self.claim({host: {"VCPU": 5}}, project="one")
        self.claim({host: {"VCPU": 1}}, project="two", consumer=factories.new_uuid())
        self.assertEqual(2, before.total(ProjectSet(["one", "two"]), "VCPU"))
        self.assertEqual({"VCPU": 6, CONSUMERS: 2}, self.of("one", "two"))

    def test_many_changes_are_loaded_at_once(self):
        host = self.provider(VCPU=8)
        self.of("one")
        self.patch_few(0)
        self.claim({host: {"VCPU": 2}}, project="one")
        self.assertEqual({"VCPU": 2, CONSUMERS: 1}, self.of("one"))

    def patch_few(self, few):
        original, usage_index._FEW = usage_index._FEW, few
        self.addCleanup(setattr, usage_index, "_FEW", original)

    def test_an_unchanged_index_costs_one_question(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 2}}, project="one")
        self.of("one")
        trips = round_trips.RoundTrips(self.database)
        self.assertEqual(1, trips.of(self.of, "one"))

    def test_a_revision_of_limits_is_seen(self):
        before = self.index.usages(self.ctx).revision
        with db.write(self.ctx) as session:
            revisions.increment(session, revisions.LIMITS)
        self.assertGreater(self.index.usages(self.ctx).revision, before)

    def test_other_revisions_do_not_outdate_limits(self):
        before = self.index.usages(self.ctx).revision
        for name in (revisions.POOL, revisions.POOL_HOSTS, revisions.NOTICES):
            with db.write(self.ctx) as session:
                revisions.increment(session, name)
        self.assertEqual(before, self.index.usages(self.ctx).revision)
