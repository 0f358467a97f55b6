import random

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import forks
from placement_core.catalog import domains, projects, regions, services
from placement_core.limits import limits, registered
from placement_core.placement.usage import usages
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota import errors
from placement_core.quota.decisions import Decisions
from placement_core.testing import factories
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.flat import Flat
from placement_plugins.enforcement.tree import Tree
from placement_plugins.limits.local import LocalLimits
from tests import databases, round_trips
from tests.functional.placement import claims


@databases.on_each_database
class TestDecisions(claims.ClaimsTestCase):
    """A domain, two projects in it, and two below the first of them."""

    def setUp(self):
        super().setUp()
        self.service = services.create(self.ctx, service_type="placement").id
        regions.create(self.ctx, id="here")
        self.domain = domains.create(self.ctx, name="garden").id
        self.trunk = self.project("trunk", self.domain)
        self.other = self.project("other", self.domain)
        self.left = self.project("left", self.trunk)
        self.right = self.project("right", self.trunk)
        self.conf = cfg.ConfigOpts()
        self.catalog, self.driver = LocalCatalog(self.conf), LocalLimits(self.conf)
        registered.create_many(self.ctx, self.catalog, [
            {"service_id": self.service, "resource_name": name, "default_limit": default}
            for name, default in (("class:VCPU", 10), ("class:MEMORY_MB", -1))])
        self.host = self.provider(VCPU=1000, MEMORY_MB=1000)
        self.decisions = self.made(Tree)

    def made(self, model):
        return Decisions(UsageIndex(self.database), self.catalog, self.driver, model(self.conf))

    def project(self, name, parent):
        return projects.create(
            self.ctx, name=name, domain_id=self.domain,
            parent_id=None if parent == self.domain else parent).id

    def limit(self, node, value, name="class:VCPU"):
        whose = "domain_id" if node == self.domain else "project_id"
        return limits.create_many(self.ctx, self.catalog, Tree(self.conf), [
            {whose: node, "service_id": self.service, "resource_name": name,
             "resource_limit": value}])[0].id

    def use(self, project, amount, **others):
        self.claim({self.host: {"VCPU": amount, **others}}, project=project,
                   consumer=factories.new_uuid())

    def decide(self, project, amount, name="class:VCPU", **options):
        return self.decisions.decide(
            self.ctx, project_id=project, deltas={name: amount}, service_id=self.service,
            region_id=None, **options)

    def excesses(self, project, amount, name="class:VCPU"):
        return [(each.binding.node_id, each.binding.limit, each.usage, each.delta)
                for each in self.decide(project, amount, name).excesses]

    def test_the_default_binds_what_a_project_uses_itself(self):
        self.use(self.left, 9)
        self.use(self.right, 9)
        self.assertEqual([], self.excesses(self.left, 1))
        self.assertEqual([(self.left, 10, 9, 2)], self.excesses(self.left, 2))
        self.assertEqual([], self.excesses(self.trunk, 10))

    def test_a_limit_above_binds_the_whole_tree(self):
        self.limit(self.trunk, 12)
        self.use(self.left, 6)
        self.use(self.right, 4)
        self.use(self.other, 8)
        self.assertEqual([], self.excesses(self.left, 2))
        self.assertEqual([(self.trunk, 12, 10, 3)], self.excesses(self.left, 3))
        self.assertEqual([(self.left, 10, 6, 5), (self.trunk, 12, 10, 5)],
                         self.excesses(self.left, 5))
        self.assertEqual([], self.excesses(self.other, 2))

    def test_a_limit_that_is_set_binds_from_the_next_question_on(self):
        self.use(self.left, 6)
        self.assertEqual([], self.excesses(self.left, 2))
        id_ = self.limit(self.trunk, 7)
        self.assertEqual([(self.trunk, 7, 6, 2)], self.excesses(self.left, 2))
        # Below what is used: allowed, and it binds new claims only.
        limits.update(self.ctx, self.catalog, Tree(self.conf), id_, {"resource_limit": 3})
        self.assertEqual([(self.trunk, 3, 6, 0)], self.excesses(self.left, 0))
        self.assertEqual([], self.excesses(self.left, -1))

    def test_a_forked_process_does_not_rely_on_what_its_parent_knew(self):
        self.use(self.left, 6)
        self.assertEqual([], self.excesses(self.left, 2))
        self.limit(self.trunk, 7)
        # What the fork does to the child.
        forks._call_all()
        self.assertEqual([(self.trunk, 7, 6, 2)], self.excesses(self.left, 2))

    def test_projects_that_come_and_move_count(self):
        self.limit(self.trunk, 10)
        self.assertEqual([], self.excesses(self.left, 10))
        late = self.project("late", self.trunk)
        self.use(late, 4)
        self.assertEqual([(self.trunk, 10, 4, 7)], self.excesses(self.left, 7))
        projects.update(self.ctx, late, parent_id=self.domain)
        self.assertEqual([], self.excesses(self.left, 7))

    def test_names(self):
        self.assertEqual([], self.excesses(self.left, 10**9, "class:MEMORY_MB"))
        # Nobody registered it: nothing is allowed.
        self.assertEqual([(self.left, 0, 0, 1)], self.excesses(self.left, 1, "class:DISK_GB"))
        for name in ("servers", "class:", "xclass:VCPU"):
            self.assertRaises(errors.UnknownResource, self.decide, self.left, 1, name)

    def test_a_project_nobody_knows(self):
        self.use("stranger", 9)
        self.assertEqual([], self.excesses("stranger", 1))
        self.assertEqual([("stranger", 10, 9, 2)], self.excesses("stranger", 2))

    def test_flat(self):
        self.limit(self.trunk, 0)
        self.decisions = self.made(Flat)
        self.assertEqual([], self.excesses(self.left, 10))
        self.assertEqual([(self.trunk, 0, 0, 1)], self.excesses(self.trunk, 1))

    def test_as_counted_one_by_one(self):
        chance = random.Random(11)
        nodes = [self.trunk, self.other, self.left, self.right]
        for number in range(10):
            nodes.append(self.project(f"more-{number}", chance.choice(nodes)))
        for node, value in ((self.domain, 60), (self.trunk, 40), (self.left, 20)):
            self.limit(node, value)
        for _ in range(40):
            self.use(chance.choice(nodes), chance.randint(1, 4))
            project, amount = chance.choice(nodes), chance.randint(0, 12)
            expected = []
            for node in reversed(self.catalog.lineage(self.ctx, project)):
                counted = ([each.id for each in self.catalog.subtree(self.ctx, node.id)])
                limit = {self.domain: 60, self.trunk: 40, self.left: 20}.get(node.id)
                if limit is None and node.id == project:
                    limit, counted = 10, [project]
                used = sum(usage.resources["VCPU"] for each in counted
                           for usage in usages.for_project(self.ctx, each))
                if limit is not None and used + amount > limit:
                    expected.append((node.id, limit, used, amount))
            self.assertEqual(expected, self.excesses(project, amount))

    def test_what_it_costs(self):
        self.limit(self.trunk, 10)
        self.limit(self.domain, 20)
        self.use(self.left, 4, MEMORY_MB=4)
        sent = []
        for engine in (self.database.autocommit, self.database.snapshot):
            sa.event.listen(engine, "before_cursor_execute", lambda *sent_: sent.append(sent_[2]))
        self.decide(self.left, 1)
        reads = [statement for statement in sent if "SELECT" in statement]
        self.assertLessEqual(len(reads), 5, reads)
        trips = round_trips.RoundTrips(self.database)
        self.assertEqual(1, trips.of(self.decide, self.left, 1))
