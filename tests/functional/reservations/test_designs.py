"""What instance reservations are in each design, and what becomes of them when it changes."""

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.placement import aggregates, allocations, tables as placed
from placement_core.placement.records import AllocationWrite
from placement_core.reservations import records, tables
from placement_core.reservations.hosts.registry import HostRegistry
from placement_core.reservations.leases.transitions import Transitions
from placement_core.reservations.provisioning import compute_calls, freepool, outbox, slots
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.testing import factories
from tests import databases, races
from tests.functional.reservations import pool_cases
from tests.functional.reservations.lease_cases import NotedRules
from tests.functional.reservations.test_lives import LifeTestCase

DESIGNS = ("placement", "aggregate")


class DesignTestCase(LifeTestCase):
    """Two hosts, and a design that can be changed as an operator changes the option."""

    def use(self, design):
        """Have the service started anew with a design, and its manager's steps done once."""
        self.design = design
        self.provisioner = Provisioner(
            design=design, leftovers="report", acts=True, patience_seconds=600)
        self.transitions = Transitions(self.plugins(), self.provisioner, NotedRules())
        self.pool = HostRegistry(self.provisioner, self.nodes, self.healing)
        self.leases._provisioner = self.healing._provisioner = self.provisioner
        self.work()
        self.converge()
        self.work()

    def converge(self):
        return freepool.converge(
            self.context(), self.compute, has_freepool=self.design == "aggregate")

    def boot(self, lease, host, *, project="project"):
        """Claim of a host what nova claims with the flavor of a lease; return the consumer."""
        [reservation] = lease.reservations
        flavor = self.compute.flavors[reservation.id]
        self.assertIn(project, flavor.projects)
        providers, hosts = placed.resource_providers, tables.computehosts
        with db.read_once(self.ctx) as session:
            child = session.execute(
                sa.select(providers.c.uuid)
                .join(hosts, hosts.c.reservation_provider_id == providers.c.id)
                .where(hosts.c.id == host.id)).scalar_one()
        wanted = {host.provider_uuid: {"VCPU": flavor.size[0]}}
        if flavor.resource_class is not None:
            wanted[child] = {flavor.resource_class: 1}
        consumer = factories.new_uuid()
        allocations.replace(
            self.context(), [AllocationWrite(consumer, wanted, project, "user")],
            [self.parts.host_access])
        return consumer

    def delete_servers(self, lease):
        """Delete what holds slots of a lease in force."""
        with db.read(self.ctx) as session:
            consumers = slots.find_consumers(session, lease.reservations[0].id)
        for consumer in consumers:
            allocations.delete(self.context(), consumer)


@databases.on_each_database
class TestAffinity(DesignTestCase):
    """What was leased holds for whoever boots, in the claim's own transaction."""

    def in_force(self, *reservations):
        leases = [self.lease(each) for each in reservations]
        for lease in leases:
            self.happen(lease, records.START)
        self.work()
        return leases

    def test_apart(self):
        """Also beside another lease of the project, whose slots are on the same hosts."""
        for design in DESIGNS:
            self.use(design)
            lease, other = self.in_force(
                pool_cases.slots(2, vcpus=2, affinity=False), pool_cases.slots(4, vcpus=2))
            self.boot(lease, self.hosts[0])
            self.refused(lease, self.hosts[0])
            self.boot(lease, self.hosts[1])
            self.refused(lease, self.hosts[1])
            self.end(lease, other)

    def test_apart_at_the_same_moment(self):
        """Of two servers that are scheduled to one host at once, one is sent elsewhere."""
        for design in DESIGNS:
            self.use(design)
            [lease] = self.in_force(pool_cases.slots(2, vcpus=2, affinity=False))
            outcomes = races.run(*[lambda lease=lease: self.boot(lease, self.hosts[0])] * 2)
            self.assertEqual(1, len([each for each in outcomes if isinstance(each, str)]))
            self.end(lease)

    def test_together(self):
        for design in DESIGNS:
            self.use(design)
            [lease] = self.in_force(pool_cases.slots(2, vcpus=2, affinity=True))
            [name] = self.held(lease)
            here, there = sorted(self.hosts, key=lambda host: host.name != name)
            self.refused(lease, there)
            for _ in range(2):
                self.boot(lease, here)
            self.refused(lease, here)
            self.end(lease)

    def refused(self, lease, host):
        self.assertRaises(errors.Conflict, self.boot, lease, host)

    def end(self, *leases):
        for lease in leases:
            self.delete_servers(lease)
            self.happen(lease, records.END)
        self.work()


@databases.on_each_database
class TestDesignChanges(DesignTestCase):
    """``[reservations] instance_design`` changes while hosts are in the freepool."""

    def test_to_aggregate(self):
        """Hosts that were registered before are in the freepool then."""
        self.assertEqual(set(), self.compute.freepool)
        self.use("aggregate")
        self.assertEqual({"one", "two"}, self.compute.freepool)
        self.assertEqual(0, self.converge())

    def test_to_placement(self):
        self.use("aggregate")
        self.use("placement")
        self.assertEqual(set(), self.compute.freepool)

    def test_leases_in_force(self):
        """They end, whatever they began as, and what they consist of goes."""
        for before, after in (DESIGNS, DESIGNS[::-1]):
            self.use(before)
            leases = [self.lease(pool_cases.slots(1, vcpus=2)), self.lease(pool_cases.whole(1))]
            for lease in leases:
                self.happen(lease, records.START)
            self.use(after)
            for lease in leases:
                self.happen(lease, records.END)
            self.work()
            self.assertEqual({}, self.made())
            self.assertEqual({"one", "two"} if after == "aggregate" else set(),
                             self.compute.freepool)

    def test_an_end_with_the_freepool_gone(self):
        """It does not wait for the manager to put things in order."""
        lease = self.lease(pool_cases.whole(1))
        self.happen(lease, records.START)
        self.work()
        self.design = "aggregate"
        self.provisioner = Provisioner(
            design="aggregate", leftovers="report", acts=True, patience_seconds=600)
        self.transitions = Transitions(
            self.parts.reservation_plugins, self.provisioner, NotedRules())
        self.happen(lease, records.END)
        self.work()
        self.assertEqual(1, len(self.compute.freepool))

    def test_leases_that_begin_later(self):
        """Their flavor and aggregate are those of the design in which they begin."""
        for before, after in (DESIGNS, DESIGNS[::-1]):
            self.use(before)
            lease = self.lease(pool_cases.slots(2, vcpus=2, affinity=False))
            id_ = lease.reservations[0].id
            self.use(after)
            self.happen(lease, records.START)
            self.work()
            self.assertEqual(after == "aggregate", self.compute.flavors[id_].in_aggregate)
            if after == "aggregate":
                self.assertEqual({"one", "two"}, self.compute.aggregates[id_][2])
            self.boot(lease, self.hosts[0])
            self.delete_servers(lease)
            self.happen(lease, records.END)
            self.work()
            self.assertEqual({}, self.made())

    def test_growth_in_force(self):
        """New hosts are where the flavor, which is of the other design, sends servers."""
        for before, after in (DESIGNS, DESIGNS[::-1]):
            self.use(before)
            lease = self.lease(pool_cases.slots(1, vcpus=2, affinity=False))
            id_ = lease.reservations[0].id
            self.happen(lease, records.START)
            self.use(after)
            self.leases.change(self.context(), lease.id, records.LeaseChange(reservations=[
                records.ChangedReservation(id_, None, {"amount": 2})]))
            self.work()
            if self.compute.flavors[id_].in_aggregate:
                self.assertEqual({"one", "two"}, self.compute.aggregates[id_][2])
            for host in self.hosts:
                self.boot(lease, host)
            self.delete_servers(lease)
            self.happen(lease, records.END)
            self.work()
            self.assertEqual({}, self.made())

    def test_slots_in_a_freepool_that_comes(self):
        """Its hosts are closed to all projects but those of the slots, who are let in first."""
        lease = self.lease(pool_cases.slots(2, vcpus=2, affinity=False))
        id_ = lease.reservations[0].id
        self.happen(lease, records.START)
        self.work()
        self.compute.calls.clear()
        self.use("aggregate")
        self.assertEqual(
            ("slot", "project", {"one", "two"}), self.compute.aggregates[id_])
        order = [call[0] for call in self.compute.calls if "two" not in call]
        self.assertLess(order.index("add_host"), order.index("add_to_freepool"))
        self.assertIsNotNone(self.reservation(lease).compute_ids["aggregate_id"])

    def test_slots_in_a_freepool_that_goes(self):
        """Their aggregates stay, for servers that are there, and close nobody out."""
        self.use("aggregate")
        lease = self.lease(pool_cases.slots(1, vcpus=2, affinity=False))
        id_ = lease.reservations[0].id
        self.happen(lease, records.START)
        self.work()
        self.compute.calls.clear()
        self.use("placement")
        [name] = self.held(lease)
        self.assertEqual((("slot", None, {name}), set()), (
            self.compute.aggregates[id_], self.compute.freepool))
        names = [call[0] for call in self.compute.calls
                 if call[0] == "put_slot_aggregate" or name in call]
        self.assertLess(names.index("remove_from_freepool"), names.index("put_slot_aggregate"))
        self.leases.change(self.context(), lease.id, records.LeaseChange(reservations=[
            records.ChangedReservation(id_, None, {"amount": 2})]))
        self.work()
        self.assertEqual(("slot", None, {"one", "two"}), self.compute.aggregates[id_])

    def test_placement_knows_the_aggregate(self):
        """Also where the compute service did not come through to tell it."""
        lease = self.lease(pool_cases.whole(1))
        self.happen(lease, records.START)
        self.work()
        id_ = lease.reservations[0].id
        [name] = self.held(lease)
        [host] = [each for each in self.hosts if each.name == name]
        known = self.compute.add_host(id_, name)
        before = aggregates.list_for_provider(self.ctx, host.provider_uuid)
        self.assertEqual((known,), before.uuids)
        aggregates.join(self.ctx, host.provider_uuid, known)
        self.assertEqual(before, aggregates.list_for_provider(self.ctx, host.provider_uuid))

    def test_hosts_that_leave(self):
        """They leave a freepool that is there from the other design, too."""
        self.use("aggregate")
        self.provisioner = Provisioner(
            design="placement", leftovers="report", acts=True, patience_seconds=600)
        self.pool = HostRegistry(self.provisioner, self.nodes, self.healing)
        self.pool.remove(self.context(), str(self.hosts[0].id))
        self.work()
        self.assertEqual({"two"}, self.compute.freepool)

    def test_reserved_hosts_stay_out(self):
        self.use("aggregate")
        lease = self.lease(pool_cases.whole(1))
        self.happen(lease, records.START)
        self.work()
        [name] = self.held(lease)
        self.assertEqual(0, self.converge())
        self.compute.freepool.add(name)
        self.compute.freepool.add("somebody else's")
        self.assertEqual(1, self.converge())
        self.work()
        self.assertEqual({"one", "two", "somebody else's"} - {name}, self.compute.freepool)

    def test_calls_that_are_to_be_made(self):
        """What is on its way is not put in order a second time."""
        self.use("aggregate")
        lease = self.lease(pool_cases.whole(2))
        self.happen(lease, records.START)
        self.assertEqual(0, self.converge())
        self.work()
        self.happen(lease, records.END)
        self.assertEqual(0, self.converge())

    def test_many_managers(self):
        """Each host is corrected once, by whoever comes first."""
        self.design = "aggregate"
        self.assertEqual(2, sum(races.run(*[self.converge] * 4)))
        self.assertEqual([("add_to_freepool", "one"), ("add_to_freepool", "two")], sorted(
            (each.name, each.arguments["host"]) for each in outbox.list_(self.ctx)))

    def test_many_managers_where_the_freepool_goes(self):
        """An aggregate is opened once."""
        self.use("aggregate")
        lease = self.lease(pool_cases.slots(2, vcpus=2, affinity=False))
        self.happen(lease, records.START)
        self.work()
        self.design = "placement"
        races.run(*[self.converge] * 4)
        self.converge()
        self.assertEqual(1, self.waiting().count("put_slot_aggregate"))
        self.work()
        self.assertEqual(set(), self.compute.freepool)

    def test_a_lease_begins_meanwhile(self):
        """The compute service was asked before a lease took a host: it stays out."""
        self.use("aggregate")
        self.use("placement")
        lease = self.lease(pool_cases.whole(1))
        inside, self.design = self.compute.freepool_hosts, "aggregate"

        def come_between():
            hosts = inside()
            self.happen(lease, records.START)
            self.work()
            return hosts

        self.compute.freepool_hosts = come_between
        self.converge()
        self.work()
        self.assertEqual({"one", "two"} - set(self.held(lease)), self.compute.freepool)


@databases.on_each_database
class TestEarlierReleases(DesignTestCase):
    """Reservations that earlier releases began in the design ``aggregate``: without slots."""

    design = "aggregate"

    def setUp(self):
        super().setUp()
        self.old = self.lease(pool_cases.slots(2, vcpus=2))
        id_ = self.old.reservations[0].id
        self.happen(self.old, records.START)
        self.work()
        # So they were: a flavor and an aggregate, and nothing in placement.
        with db.write(self.ctx) as session:
            hosts = session.execute(sa.select(
                tables.computehosts.c.id, tables.computehosts.c.name,
                tables.computehosts.c.provider_id)).all()
            slots.remove(self.ctx, session, id_, [records.PoolHost(*row) for row in hosts])
        self.compute.flavors[id_].resource_class = None

    def test_growth(self):
        """New slots are of the kind that the flavor asks for."""
        self.leases.change(self.context(), self.old.id, records.LeaseChange(reservations=[
            records.ChangedReservation(self.old.reservations[0].id, None, {"amount": 8})]))
        self.work()
        self.assertEqual(
            {"one", "two"}, self.compute.aggregates[self.old.reservations[0].id][2])
        for host in self.hosts:
            self.boot(self.old, host)
        self.happen(self.old, records.END)
        self.work()
        self.assertEqual({}, self.made())

    def test_a_group(self):
        """It goes when the reservation is made anew: nobody could use it."""
        lease = self.lease(pool_cases.slots(1, vcpus=2, affinity=False))
        id_ = lease.reservations[0].id
        self.work()
        self.compute.groups.add(id_)
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.instance_reservations).where(
                tables.instance_reservations.c.reservation_id == id_
            ).values(server_group_id=factories.new_uuid()))
        self.happen(lease, records.START)
        self.work()
        self.assertEqual(set(), self.compute.groups)
        self.assertIsNone(self.reservation(lease).compute_ids["server_group_id"])

    def test_known_calls(self):
        """A row of an earlier release is neither refused nor lost."""
        self.assertFalse(compute_calls.OBSOLETE & compute_calls.KNOWN)
