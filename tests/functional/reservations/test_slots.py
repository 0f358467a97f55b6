import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.db import clock
from placement_core.placement import (
    allocations,
    errors as placement_errors,
    inventories,
    providers,
    resource_classes,
)
from placement_core.reservations import records, tables
from placement_core.reservations.errors import WrongStatus
from placement_core.reservations.leases import history
from placement_core.reservations.provisioning import slots
from placement_core.reservations.provisioning.provisioner import HOST
from placement_core.testing import factories
from tests import databases, races
from tests.functional.reservations.provisioner_cases import PROJECT, ProvisionerTestCase


@databases.on_each_database
class TestSlots(ProvisionerTestCase):
    """The design ``placement``, without a compute service."""

    def setUp(self):
        super().setUp()
        self.one, self.two = self.host("one"), self.host("two")
        self.lent, self.reservation = self.lease()
        self.name = slots.resource_class(self.reservation.id)
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.reservations"))

    def slots(self, world):
        """Return (total, used, max_unit, reserved) of the reservation on a host."""
        found = inventories.list_(self.ctx, world.child.uuid).inventories
        return [(each.values.total, each.used, each.values.max_unit, each.values.reserved)
                for each in found if each.resource_class == self.name]

    def has_class(self):
        return self.name in {each.name for each in resource_classes.list_(self.ctx)}

    def boot(self, world, consumer=None):
        """Claim as nova does with the reservation's flavor."""
        consumer = consumer or factories.new_uuid()
        self.claim({world.child: {self.name: 1}, world.root: {"VCPU": 2}},
                   consumer=consumer, project=PROJECT)
        return consumer

    def test_in_force(self):
        """One inventory on each host, of which one slot at a time can be claimed."""
        before = self.revision(self.one.child)
        self.start(self.lent, {self.one: 2, self.two: 1})
        self.assertEqual(([(2, 0, 1, 0)], [(1, 0, 1, 0)]),
                         (self.slots(self.one), self.slots(self.two)))
        self.assertEqual(f"CUSTOM_RESERVATION_{self.reservation.id.upper().replace('-', '_')}",
                         self.name)
        self.assertLess(before, self.revision(self.one.child))
        self.boot(self.one)
        self.boot(self.one)
        self.assertEqual([(2, 2, 1, 0)], self.slots(self.one))
        self.assertRaises(placement_errors.CapacityExceeded, self.boot, self.one)
        self.assertRaises(
            placement_errors.ConstraintsViolated, self.claim, {self.two.child: {self.name: 2}},
            consumer=factories.new_uuid())

    def test_the_end_takes_all_of_it_away(self):
        generation = self.generation(self.one.child)
        self.start(self.lent, {self.one: 2, self.two: 1})
        self.end(self.lent, {self.one: 2, self.two: 1})
        self.assertEqual(([], [], False),
                         (self.slots(self.one), self.slots(self.two), self.has_class()))
        self.assertEqual(generation + 2, self.generation(self.one.child))
        self.assertEqual((0, "", []), (slots.tidy(self.ctx), self.log.output, self.waiting()))

    def test_one_that_never_began(self):
        """Admission makes nothing, so nothing is left of what was refused or given up."""
        self.make(self.lent)
        self.assertFalse(self.has_class())
        self.end(self.lent, was_in_force=False)
        self.assertFalse(self.has_class())

    def test_a_start_that_is_undone(self):
        self.provisioner = self.make_provisioner()
        self.addCleanup(setattr, slots, "put", slots.put)

        def fail(*values):
            put(*values)
            raise WrongStatus("no")

        put, slots.put = slots.put, fail
        self.assertRaises(WrongStatus, self.start, self.lent, {self.one: 1})
        self.assertEqual(([], False), (self.slots(self.one), self.has_class()))

    def test_ids_of_classes_do_not_come_back(self):
        self.start(self.lent, {self.one: 1})
        with self.database.autocommit.connect() as connection:
            def class_id(name):
                from placement_core.db import Session
                session = Session(connection, self.database.compiled, writing=False)
                return resource_classes.ids(session, [name])[name]
            first = class_id(self.name)
            self.end(self.lent, {self.one: 1})
            other, reservation = self.lease()
            self.start(other, {self.one: 1})
            self.assertLess(first, class_id(slots.resource_class(reservation.id)))

    def test_a_class_that_is_there_already(self):
        """Somebody made it by hand: it serves, and goes at the end."""
        resource_classes.create(self.ctx, self.name)
        self.start(self.lent, {self.one: 2})
        self.assertEqual([(2, 0, 1, 0)], self.slots(self.one))
        self.end(self.lent, {self.one: 2})
        self.assertFalse(self.has_class())

    def test_growing(self):
        self.start(self.lent, {self.one: 1})
        self.boot(self.one)
        self.change(self.lent, {self.one: 1}, {self.one: 3, self.two: 2})
        self.assertEqual(([(3, 1, 1, 0)], [(2, 0, 1, 0)]),
                         (self.slots(self.one), self.slots(self.two)))

    def test_a_host_is_replaced(self):
        """What is used there stays, closed, until it is gone."""
        self.start(self.lent, {self.one: 2})
        server = self.boot(self.one)
        self.change(self.lent, {self.one: 2}, {self.two: 2})
        self.assertEqual(([(2, 1, 1, 2)], [(2, 0, 1, 0)]),
                         (self.slots(self.one), self.slots(self.two)))
        self.assertRaises(placement_errors.CapacityExceeded, self.boot, self.one)
        self.assertEqual(0, slots.tidy(self.ctx))
        allocations.delete(self.ctx, server)
        self.assertEqual(1, slots.tidy(self.ctx))
        self.assertEqual(([], [(2, 0, 1, 0)]), (self.slots(self.one), self.slots(self.two)))

    def test_a_host_is_replaced_that_nobody_uses(self):
        self.start(self.lent, {self.one: 2})
        self.change(self.lent, {self.one: 2}, {self.two: 2})
        self.assertEqual(([], [(2, 0, 1, 0)]), (self.slots(self.one), self.slots(self.two)))

    def test_a_host_comes_back(self):
        self.start(self.lent, {self.one: 2})
        self.boot(self.one)
        self.change(self.lent, {self.one: 2}, {self.two: 2})
        self.change(self.lent, {self.two: 2}, {self.one: 2})
        self.assertEqual(([(2, 1, 1, 0)], []), (self.slots(self.one), self.slots(self.two)))
        self.boot(self.one)

    def test_leftovers_are_reported(self):
        """The lease ends; what is allocated stays, closed, and goes with its consumer."""
        self.start(self.lent, {self.one: 2, self.two: 1})
        server = self.boot(self.one)
        self.end(self.lent, {self.one: 2, self.two: 1})
        self.assertIn(server, self.log.output)
        self.assertEqual(([(2, 1, 1, 2)], []), (self.slots(self.one), self.slots(self.two)))
        self.assertRaises(placement_errors.CapacityExceeded, self.boot, self.one)
        revision = self.revision(self.one.child)
        self.assertEqual(0, slots.tidy(self.ctx))
        self.assertEqual(revision, self.revision(self.one.child))
        allocations.delete(self.ctx, server)
        slots.tidy(self.ctx)
        self.assertEqual(([], False), (self.slots(self.one), self.has_class()))
        self.assertEqual(0, slots.tidy(self.ctx))

    def test_a_class_whose_host_left_is_tidied(self):
        self.start(self.lent, {self.one: 1})
        server = self.boot(self.one)
        self.end(self.lent, {self.one: 1})
        allocations.delete(self.ctx, server)
        providers.delete(self.ctx, self.one.child.uuid)
        self.assertEqual(1, slots.tidy(self.ctx))
        self.assertFalse(self.has_class())

    def test_a_class_whose_lease_the_history_removed(self):
        """It goes with the last server: nothing else would tell later that it was ours."""
        servers = self._end_and_forget()
        for server, has_class in zip(servers, (True, False), strict=True):
            allocations.delete(self.ctx, server)
            self.assertEqual((1, has_class), (slots.tidy(self.ctx), self.has_class()))
        self.assertEqual(([], []), (self.slots(self.one), self.slots(self.two)))

    def test_two_managers_tidy_at_once(self):
        """Each removes another inventory; the one that comes last removes the class, too."""
        for server in self._end_and_forget():
            allocations.delete(self.ctx, server)
        first, last = slots._find_closed(self.ctx)

        def remove(paused):
            ctx = self.context()
            with db.write(ctx):
                slots._remove_closed(ctx, *first)
                paused.here()

        with races.Paused(remove) as paused:
            self.assertIsNone(paused.against(
                self.database, lambda: slots._remove_closed(self.context(), *last)))
        self.assertIsNone(paused.outcome)
        self.assertFalse(self.has_class())

    def _end_and_forget(self):
        """End a lease whose servers stay, and have the history remove it; return the servers."""
        self.start(self.lent, {self.one: 1, self.two: 1})
        servers = [self.boot(self.one), self.boot(self.two)]
        self.end(self.lent, {self.one: 1, self.two: 1})
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).values(
                ended_at=clock.in_seconds(sa.literal_column("-1", sa.Integer))))
        self.assertEqual(1, history.remove_old(self.ctx, keep_days=0).leases)
        return servers

    def test_a_reservation_in_force_without_hosts(self):
        """It keeps its class, which its flavor names: it gets hosts again."""
        self.start(self.lent, {self.one: 2})
        server = self.boot(self.one)
        self.change(self.lent, {self.one: 2}, {})
        allocations.delete(self.ctx, server)
        self.assertEqual((1, True), (slots.tidy(self.ctx), self.has_class()))
        self.change(self.lent, {}, {self.two: 2})
        self.boot(self.two)

    def test_tidying_leaves_what_is_not_ours(self):
        """Classes of reservations in force, of other services, and of no reservation."""
        self.start(self.lent, {self.one: 1})
        others = [slots.resource_class(factories.new_uuid()), "CUSTOM_RESERVATION_OF_MINE"]
        for name in others:
            resource_classes.create(self.ctx, name)
        self.assertEqual(0, slots.tidy(self.ctx))
        names = {each.name for each in resource_classes.list_(self.ctx)}
        self.assertTrue(names.issuperset([self.name, *others]))

    def test_leftovers_are_deleted(self):
        """Whole consumers, with what they hold elsewhere; others keep what they have."""
        self.provisioner = self.make_provisioner(leftovers="delete")
        self.start(self.lent, {self.one: 2, self.two: 1})
        servers = [self.boot(self.one), self.boot(self.two)]
        self.claim({self.one.root: {"VCPU": 1}})
        self.end(self.lent, {self.one: 2, self.two: 1})
        self.assertEqual([{}, {}], [self.held(server) for server in servers])
        self.assertEqual({self.one.root.uuid: {"VCPU": 1}}, self.held())
        self.assertEqual({"VCPU": 1, "MEMORY_MB": 0, "DISK_GB": 0}, self.used(self.one.root))
        self.assertEqual(([], False), (self.slots(self.one), self.has_class()))

    def test_leftovers_refuse_the_end(self):
        """Nothing changes then, and the end can be tried again."""
        self.provisioner = self.make_provisioner(leftovers="refuse")
        self.start(self.lent, {self.one: 2})
        server = self.boot(self.one)
        refusal = self.assertRaises(WrongStatus, self.end, self.lent, {self.one: 2})
        self.assertIn(server, str(refusal))
        self.assertEqual((records.R_ACTIVE, [(2, 1, 1, 0)]),
                         (self.status(self.reservation), self.slots(self.one)))
        allocations.delete(self.ctx, server)
        self.end(self.lent, {self.one: 2})
        self.assertEqual(([], False), (self.slots(self.one), self.has_class()))

    def test_allocations_on_hosts_of_a_host_reservation(self):
        """Whatever its project has on the tree of a host uses the reservation."""
        lent, reservation = self.lease(HOST)
        self.start(lent, {self.one: 1})
        self.assertEqual([], self.waiting())
        self.claim({self.one.root: {"VCPU": 1}}, project=PROJECT)
        elsewhere = factories.new_uuid()
        self.claim({self.two.root: {"VCPU": 1}}, consumer=elsewhere, project=PROJECT)
        self.provisioner = self.make_provisioner(leftovers="refuse")
        refusal = self.assertRaises(WrongStatus, self.end, lent, {self.one: 1})
        self.assertIn(self.consumer, str(refusal))
        self.assertNotIn(elsewhere, str(refusal))
        self.assertEqual(records.R_ACTIVE, self.status(reservation))
        self.provisioner = self.make_provisioner(leftovers="delete")
        self.end(lent, {self.one: 1})
        self.assertEqual(({}, {self.two.root.uuid: {"VCPU": 1}}),
                         (self.held(), self.held(elsewhere)))

    def test_allocations_on_hosts_are_reported(self):
        lent, reservation = self.lease(HOST)
        self.start(lent, {self.one: 1})
        self.claim({self.one.root: {"VCPU": 1}}, project=PROJECT)
        self.end(lent, {self.one: 1})
        self.assertEqual((records.R_DELETED, {self.one.root.uuid: {"VCPU": 1}}),
                         (self.status(reservation), self.held()))
        self.assertIn(self.consumer, self.log.output)

    def test_one_that_began_under_the_other_design(self):
        self.start(self.lent, {self.one: 1})
        self.provisioner = self.make_provisioner(design="aggregate", acts=True)
        self.end(self.lent, {self.one: 1})
        self.assertEqual(([], False), (self.slots(self.one), self.has_class()))
