"""Trees of more projects than are read in a claim: what they use comes from the usage index."""

import fixtures

from placement_core.placement import allocations, inventories, resource_classes
from placement_core.quota import errors, locked_usage
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import project_trees


@databases.on_each_database
class TestLargeTrees(project_trees.TreeTestCase):
    """A domain of 130 projects with a limit of 20 for all, and a project of nobody's."""

    size = 130

    def setUp(self):
        super().setUp()
        self.register(VCPU=1000)
        self.limit(self.domain, VCPU=20)
        self.members = [self.project(f"member-{number}", self.trunk)
                        for number in range(self.size)]
        self.assertGreater(self.size, locked_usage.MOST_PROJECTS)
        # The database numbers the member first, the index the stranger.
        self.member = self.members[-1]
        for project in (self.member, "stranger"):
            self.owners.ensure(self.ctx, [self.write({self.host: {"VCPU": 1}}, project=project)])

    def use(self, project, amount):
        self.claim({self.host: {"VCPU": amount}}, project=project,
                   consumer=factories.new_uuid())

    def admitted(self, amount, times=3):
        """Claim again and again; return how often that was allowed."""
        count = 0
        for _ in range(times):
            try:
                self.take(self.member, {"VCPU": amount})
            except errors.QuotaExceeded as refusal:
                self.assertEqual([(self.domain, 20)], [
                    (each.node_id, each.limit) for each in refusal.exceeded_limits])
            else:
                count += 1
        return count

    def test_a_class_that_is_made(self):
        self.decisions.read_usages(self.ctx)
        self.use("stranger", 1)
        self.decisions.read_usages(self.ctx)
        self.take(self.member, {"VCPU": 19})
        self.assertEqual(0, self.admitted(6))
        resource_classes.create(self.ctx, "CUSTOM_GPU")
        self.assertEqual(0, self.admitted(6))
        self.assertEqual(1, self.admitted(1))

    def test_a_class_that_is_removed(self):
        resource_classes.create(self.ctx, "CUSTOM_GPU")
        self.decisions.read_usages(self.ctx)
        self.use("stranger", 50)
        self.decisions.read_usages(self.ctx)
        self.take(self.member, {"VCPU": 1})
        self.take(self.member, {"VCPU": 1})
        resource_classes.delete(self.ctx, "CUSTOM_GPU")
        # Nobody is refused by what others use.
        self.assertEqual(3, self.admitted(6))
        self.assertEqual(0, self.admitted(1))

    def test_many_projects_that_change_at_once(self):
        many = 1001
        host = self.provider(VCPU=10 * many)
        self.decisions.read_usages(self.ctx)
        self.use("stranger", 1)
        self.decisions.read_usages(self.ctx)
        self.take(self.member, {"VCPU": 19})
        self.assertEqual(0, self.admitted(6))
        others = {f"other-{number}": factories.new_uuid() for number in range(many)}
        for amount, at_once in ((1, many // 2 + 1), (2, many)):
            for start in range(0, many, at_once):
                allocations.replace(self.ctx, [
                    self.write({host: {"VCPU": amount}}, project=project, consumer=consumer)
                    for project, consumer in list(others.items())[start:start + at_once]])
                self.assertEqual(0, self.admitted(6, times=1))
        self.assertEqual(1, self.admitted(1))

    def test_servers_while_a_class_is_gone_that_was_used(self):
        """Counters of a class stay behind it; they are not counted as consumers."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.locked_usage.MOST_PROJECTS", -1))
        self.register(servers=2)
        host = self.provider(VCPU=10, CUSTOM_GPU=10)
        for _ in range(2):
            self.take(self.member, {"VCPU": 1}, host=host)
        consumer = self.take("stranger", {"CUSTOM_GPU": 1}, host=host)
        self.take("stranger", {"VCPU": 1}, host=host)
        allocations.delete(self.ctx, consumer)
        consumer = factories.new_uuid()
        self.claim({host: {"CUSTOM_GPU": 1}}, project=self.member, consumer=consumer)
        allocations.delete(self.ctx, consumer)
        inventories.delete(self.ctx, host.uuid, "CUSTOM_GPU")
        resource_classes.delete(self.ctx, "CUSTOM_GPU")
        refusal = self.assertRaises(
            errors.QuotaExceeded, self.take, self.member, {"VCPU": 1}, host=host)
        self.assertEqual([("servers", 2, 2)], [
            (each.resource_name, each.limit, each.used) for each in refusal.exceeded_limits])

