import sqlalchemy as sa

from placement_core.cells import tables
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.quota import checks, errors, explain, members
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import cases, test_checks


@cases.in_every_way
class TestExplain(test_checks.ChecksTestCase):

    def explain(self, project, user=None, visible=None, **deltas):
        return explain.explain(
            self.ctx, self.enforcer, self.check(project, user, **deltas), deltas,
            visible=visible)

    def test_what_stops_it_and_what_would_have_to_go(self):
        self.limit(self.trunk, 10)
        large = self.use(self.right, 5)
        self.use(self.left, 1)
        middle = self.use(self.left, 3)
        self.use(self.other, 9)
        (stop,) = self.explain(self.left, cores=2).stops
        self.assertEqual(([(large, self.right, 5)], True), (
            [(each.uuid, each.project_id, each.amount) for each in stop.holders], stop.enough))
        self.assertEqual(
            f"project trunk ({self.trunk}) in domain garden stops it: limit 10 cores, 9 used, "
            f"2 asked, 1 too many; deleting {large} of project right ({self.right}) in domain "
            "garden (5) would do.", stop.sentence)
        (stop,) = [each for each in self.explain(self.left, cores=7).stops
                   if each.exceeded_limit.node_id == self.trunk]
        self.assertEqual([large, middle], [each.uuid for each in stop.holders])

    def test_each_limit_for_itself(self):
        self.limit(self.trunk, 10)
        mine, theirs = self.use(self.left, 4), self.use(self.right, 5)
        stops = self.explain(self.left, cores=7).stops
        self.assertEqual(
            [(self.left, [mine], True), (self.trunk, [theirs, mine], True)],
            [(each.exceeded_limit.node_id, [holder.uuid for holder in each.holders], each.enough)
             for each in stops])

    def test_not_all_of_it_would_do(self):
        uuid = self.use(self.left, 4)
        for asked, enough in ((7, True), (10, True), (11, False)):
            (stop,) = self.explain(self.left, cores=asked).stops
            self.assertEqual(([uuid], enough), (
                [each.uuid for each in stop.holders], stop.enough))
        self.assertIn("would not do", stop.sentence)

    def test_what_the_caller_may_not_see_is_not_named(self):
        self.limit(self.trunk, 10)
        mine, theirs = self.use(self.left, 1), self.use(self.right, 8)
        (stop,) = self.explain(self.left, visible=[self.left], cores=2).stops
        self.assertEqual([mine], [each.uuid for each in stop.holders])
        (stop,) = self.explain(self.left, visible=[self.left], cores=4).stops
        self.assertFalse(stop.enough)
        self.assertNotIn(theirs, stop.sentence)
        (stop,) = self.explain(self.left, visible=[], cores=4).stops
        self.assertIn("cannot be seen from here", stop.sentence)

    def test_servers_and_users(self):
        self.user_limit(self.left, 2, "servers")
        self.use(self.left, 1, user="joe")
        first, second = self.use(self.left, 1), self.use(self.left, 3)
        (stop,) = self.explain(self.left, "jane", servers=1).stops
        self.assertEqual([(second, 1)], [(each.uuid, each.amount) for each in stop.holders])
        self.assertTrue(stop.sentence.startswith("the limit of user jane in project left"))
        (stop,) = self.explain(self.left, "jane", servers=2).stops
        self.assertEqual([second, first], [each.uuid for each in stop.holders])

    def test_how_much_more_would_fit(self):
        self.limit(self.trunk, 10)
        self.use(self.right, 5)
        found = self.explain(self.left, cores=2, ram=7)
        self.assertEqual([], found.stops)
        self.assertEqual([("cores", 3), ("ram", float("inf"))], [
            (each.resource_name, each.amount) for each in found.more])
        self.assertEqual([
            f"It fits; 3 more cores would, then project trunk ({self.trunk}) in domain garden "
            "stops it: limit 10, 5 used.", "No limit on ram binds the project."],
            found.sentences)

    def test_of_many_items(self):
        self.use(self.left, 5)
        per_item = {"cores": 2}
        answer = checks.check_many(
            self.ctx, self.enforcer, project_id=self.left, per_item=per_item, min_count=1,
            max_count=4)
        found = explain.explain(self.ctx, self.enforcer, answer, {"cores": 8})
        self.assertEqual((True, 2), (found.answer.fits, answer.fitting))
        self.assertEqual([3], [each.exceeded_limit.over_by for each in found.stops])


@databases.on_each_database
class TestMoves(test_checks.ChecksTestCase):
    """Instances that hold two sets of allocations are named as they count."""

    def setUp(self):
        super().setUp()
        self.build(quota__count_moves="once")

    def build(self, **options):
        self.parts = self.built(**options)
        self.enforcer, self.ctx = self.parts.quota, self.context()

    def replace(self, *writes):
        """Replace allocations of the left project.

        :param writes: consumers, each with {provider uuid: cores}.
        """
        allocations.replace(self.ctx, [
            AllocationWrite(
                uuid, {host: {"VCPU": cores, "MEMORY_MB": 10} for host, cores in hosts.items()},
                self.left, cases.USER, "INSTANCE")
            for uuid, hosts in writes])

    def resize(self, before, after):
        """Resize an instance; return its uuid and that of the migration."""
        instance, migration = self.use(self.left, before), factories.new_uuid()
        self.replace((instance, {}), (migration, {self.host.uuid: before}))
        self.replace((instance, {self.host.uuid: after}))
        return instance, migration

    def evacuate(self, cores):
        """Evacuate an instance to another host; return its uuid."""
        instance = self.use(self.left, cores)
        other_host = factories.provider(
            self.ctx, inventory={"VCPU": 100, "MEMORY_MB": 1000}).uuid
        self.replace((instance, {self.host.uuid: cores, other_host: cores}))
        return instance

    def explain(self, user=None, **deltas):
        """Return the consumers that would have to go, and whether these are enough."""
        (stop,) = explain.explain(
            self.ctx, self.enforcer, self.check(self.left, user, **deltas), deltas).stops
        return [(holder.uuid, holder.amount) for holder in stop.holders], stop.enough

    def test_a_resize_is_named_once(self):
        instance, _ = self.resize(5, 6)
        other = self.use(self.left, 4)
        self.assertEqual(([(instance, 6)], True), self.explain(cores=6))
        self.assertEqual(([(instance, 6), (other, 4)], True), self.explain(cores=8))
        self.assertEqual(([(instance, 6), (other, 4)], False), self.explain(cores=11))

    def test_by_its_larger_amount(self):
        instance, _ = self.resize(5, 3)
        other = self.use(self.left, 4)
        self.assertEqual(([(instance, 5), (other, 4)], True), self.explain(cores=9))

    def test_while_the_migration_holds_all(self):
        instance, migration = self.use(self.left, 5), factories.new_uuid()
        self.replace((instance, {}), (migration, {self.host.uuid: 5}))
        self.assertEqual(([(instance, 5)], True), self.explain(cores=8))
        self.assertEqual(([(instance, 1)], True), self.explain(servers=10))

    def test_an_evacuation(self):
        instance = self.evacuate(5)
        self.assertEqual(([(instance, 5)], False), self.explain(cores=11))

    def test_of_a_user(self):
        instance, _ = self.resize(5, 6)
        other = self.use(self.left, 4)
        self.use(self.left, 8, user="joe")
        self.limit(self.left, 100)
        self.user_limit(self.left, 10)
        self.assertEqual(
            ([(instance, 6), (other, 4)], True), self.explain(cases.USER, cores=8))

    def test_servers(self):
        instance, _ = self.resize(1, 1)
        other = self.evacuate(1)
        self.assertEqual(([(other, 1), (instance, 1)], False), self.explain(servers=11))

    def test_servers_count_once_always(self):
        self.build(quota__count_moves="twice")
        instance, _ = self.resize(1, 1)
        self.assertEqual(([(instance, 1)], False), self.explain(servers=11))

    def test_with_a_guard(self):
        self.build(quota__guard="enforce")
        instance, _ = self.resize(5, 6)
        self.assertEqual(([(instance, 6)], False), self.explain(cores=11))

    def test_both_where_both_count(self):
        self.build()
        instance, migration = self.resize(5, 6)
        self.assertEqual(([(instance, 6), (migration, 5)], True), self.explain(cores=8))


@cases.in_every_way
class TestMembers(test_checks.ChecksTestCase):

    names = {"server_group_members": 3, "cores": 10}

    def members(self, uuids, asked=0, user="jane", project=None):
        found = members.check(
            self.ctx, self.enforcer, project_id=project or self.left, user_id=user, uuids=uuids,
            asked=asked)
        return found.count.members, found.limit, found.fits

    def test_the_living_ones_of_the_user_count(self):
        uuids = [self.use(self.left) for _ in range(3)]
        other = self.use(self.left, user="joe")
        self.api(sa.update(tables.instance_mappings).where(
            tables.instance_mappings.c.instance_uuid == uuids[0]).values(queued_for_delete=True))
        group = [*uuids, other, factories.new_uuid()]
        for asked, fits in ((0, True), (1, True), (2, False)):
            self.assertEqual((2, 3, fits), self.members(group, asked))
        self.assertEqual((1, 3, True), self.members(group, user="joe"))
        self.assertEqual((0, 3, False), self.members([], 4))

    def test_whose_limit(self):
        self.limit(self.left, 2, "server_group_members")
        self.assertEqual((0, 2, True), self.members([]))
        self.user_limit(self.left, 1, "server_group_members")
        self.assertEqual((0, 1, False), self.members([], 2))
        self.assertEqual((0, 3, True), self.members([], 2, project=self.right))
        self.assertRaises(errors.UnknownProject, self.members, [], project="nobody")

    def test_a_driver_that_does_not_count_them(self):
        """Nothing fits, because nobody knows how many there are; limits on them are named."""
        self.assertEqual([], self.parts.limit_gaps(self.context()))
        self.enforcer.counting.counts_members = False
        error = self.assertRaises(errors.UncountedResource, self.members, [])
        self.assertEqual("server_group_members", error.name)
        [gap] = self.parts.limit_gaps(self.context())
        self.assertIn("held to: server_group_members. The counting driver does not count", gap)


class TestMembersUnregistered(test_checks.ChecksTestCase):

    def test_there_is_no_limit(self):
        found = members.check(
            self.ctx, self.enforcer, project_id=self.left, user_id="jane", uuids=[], asked=10)
        self.assertTrue(found.fits)
        self.parts = self.built(quota__unregistered="zero")
        found = members.check(
            self.context(), self.parts.quota, project_id=self.left, user_id="jane", uuids=[],
            asked=1)
        self.assertFalse(found.fits)
