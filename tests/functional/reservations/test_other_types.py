"""Reservations by plugins of others: what the service does for their whole hosts and slots."""

import datetime

import numpy as np

from placement_core import errors
from placement_core.placement import allocations
from placement_core.placement.errors import ProviderReserved
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.reservations import ReservationPlugin, Size, Slots, WholeHosts
from placement_core.reservations import records
from placement_core.reservations.leases.transitions import Transitions
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.testing import factories
from tests import databases
from tests.functional.reservations.lease_cases import NotedRules
from tests.functional.reservations.test_designs import DESIGNS, DesignTestCase


class Machines(ReservationPlugin):
    """``count`` whole hosts, and fields of its own."""

    api_version = 1
    resource_type = "physical:gpu"
    create_schema = {
        "type": "object", "additionalProperties": False, "required": ["count"],
        "properties": {"count": {"type": "integer"}, "before_end": {"enum": ["snapshot"]}}}
    update_schema = {**create_schema, "required": []}

    def values(self, raw_fields, before=None, *, started=False):
        return {**(before or {}), **raw_fields}

    def need(self, spec, hosts):
        count = spec.values["count"]
        return WholeHosts(count, count, np.ones(len(hosts), dtype=bool))


class Bays(Machines):
    """``count`` slots of two processors."""

    resource_type = "virtual:bay"

    def need(self, spec, hosts):
        return Slots(Size(2, 1, 1), spec.values["count"], None, np.ones(len(hosts), dtype=bool))


@databases.on_each_database
class TestOtherTypes(DesignTestCase):

    def plugins(self):
        return super().plugins() | {
            plugin.resource_type: plugin(self.parts.conf) for plugin in (Machines, Bays)}

    def reserve(self, resource_type="physical:gpu", *, hours=(0, 10), **fields):
        return self.lease(
            {"resource_type": resource_type, "count": 1, **fields}, hours=hours)

    def begin(self, *values, **fields):
        """Return a lease that is in force."""
        lease = self.reserve(*values, **fields)
        self.happen(lease, records.START)
        self.work()
        return lease

    def end(self, lease):
        self.happen(lease, records.END)
        self.work()

    def aggregate(self, lease):
        return self.compute.aggregates[lease.reservations[0].id]

    def assert_all_returned(self):
        self.assertEqual(({}, {"one", "two"} if self.design == "aggregate" else set(), 0),
                         (self.made(), self.compute.freepool, self.converge()))

    def claim_for(self, host, project):
        consumer = factories.new_uuid()
        allocations.replace(
            self.context(),
            [AllocationWrite(consumer, {host.provider_uuid: {"VCPU": 1}}, project, "user")],
            [self.parts.host_access])
        return consumer

    def host_of(self, lease):
        [name] = self.held(lease)
        [host] = [host for host in self.hosts if host.name == name]
        return host

    def test_whole_hosts(self):
        """They belong to the project while the reservation is in force, and to nobody after it."""
        for design in DESIGNS:
            self.use(design)
            lease = self.begin()
            host = self.host_of(lease)
            self.assertEqual(("host", "project", {host.name}), self.aggregate(lease))
            self.assertEqual({"one", "two"} - {host.name} if design == "aggregate" else set(),
                             self.compute.freepool)
            self.assertEqual(0, self.converge())
            for project in ("project", "other"):
                self.compute.boot(host.name, project_id=project)
            self.end(lease)
            self.assertEqual(
                ["other"], [server.project_id for server in self.compute.servers.values()])
            self.assert_all_returned()
            self.compute.servers.clear()

    def test_ends_before_their_time(self):
        self.use("aggregate")
        for end in (lambda lease: self.leases.delete(self.context(), lease.id),
                    lambda lease: self.leases.change(
                        self.context(), lease.id, records.LeaseChange(end_now=True))):
            lease = self.begin()
            self.compute.boot(self.host_of(lease).name, project_id="project")
            end(lease)
            self.work()
            self.assertEqual({}, self.compute.servers)
            self.assert_all_returned()

    def test_before_the_start(self):
        """The compute service need not know of it."""
        lease = self.reserve(hours=(1, 2))
        self.leases.change(self.context(), lease.id, records.LeaseChange(reservations=[
            records.ChangedReservation(lease.reservations[0].id, None, {"count": 2})]))
        self.leases.delete(self.context(), lease.id)
        self.assertEqual([], self.waiting())

    def test_other_hosts(self):
        """Hosts that a change adds come to the aggregate, and hosts that fail leave it."""
        self.use("aggregate")
        lease = self.begin()
        self.leases.change(self.context(), lease.id, records.LeaseChange(
            end_at=lease.end_at + datetime.timedelta(hours=1), reservations=[
                records.ChangedReservation(lease.reservations[0].id, None, {"count": 2})]))
        self.work()
        self.assertEqual(({"one", "two"}, set()),
                         (self.aggregate(lease)[2], self.compute.freepool))
        self.out_of_service(self.hosts[0])
        self.work()
        self.assertEqual(({"two"}, {"one"}), (self.aggregate(lease)[2], self.compute.freepool))
        self.out_of_service(self.hosts[1])
        self.work()
        self.assertEqual({}, self.held(lease))
        self.end(lease)
        self.assert_all_returned()

    def test_another_design_in_force(self):
        for before, after in (DESIGNS, DESIGNS[::-1]):
            self.use(before)
            lease = self.begin()
            self.use(after)
            self.assertEqual({self.host_of(lease).name}, self.aggregate(lease)[2])
            self.assertNotIn(self.host_of(lease).name, self.compute.freepool)
            self.end(lease)
            self.assert_all_returned()

    def test_leftovers(self):
        """Allocations of the project on whole hosts keep the lease, if they are to."""
        lease = self.begin()
        consumer = self.claim_for(self.host_of(lease), "project")
        self.transitions = Transitions(self.plugins(), Provisioner(
            design=self.design, leftovers="refuse", acts=True, patience_seconds=600),
            NotedRules())
        self.assertRaises(errors.Conflict, self.happen, lease, records.END)
        allocations.delete(self.context(), consumer)
        self.end(lease)
        self.assert_all_returned()

    def test_images(self):
        """A field of that name means what it means for ``physical:host``."""
        lease = self.begin(before_end="snapshot")
        server = self.compute.boot(self.host_of(lease).name, project_id="project")
        self.happen(lease, records.BEFORE_END)
        self.work()
        self.assertEqual([(lease.reservations[0].id, server)], self.compute.images)

    def test_slots(self):
        """Their project may claim as much of the hosts, and the compute service knows nothing."""
        for design in DESIGNS:
            self.use(design)
            lease = self.begin("virtual:bay")
            host = self.host_of(lease)
            self.assert_all_returned()
            self.assertRaises(ProviderReserved, self.claim_for, host, "other")
            consumers = [self.claim_for(host, "project") for _ in range(2)]
            self.assertRaises(ProviderReserved, self.claim_for, host, "project")
            self.end(lease)
            self.assert_all_returned()
            for consumer in consumers:
                allocations.delete(self.context(), consumer)
