"""The outbox: the calls of starts, changes and ends, in both designs."""

import dataclasses
import datetime

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import db
from placement_core.plugin_api import drivers
from placement_core.plugin_api.choices import DriverChoice
from placement_core.plugin_api.compute import (
    ComputeDriver,
    ComputeRefused,
    ComputeUnavailable,
)
from placement_core.reservations import tables
from placement_core.reservations.provisioning import slots
from placement_core.reservations.provisioning.outbox import CallCounts
from placement_core.reservations.provisioning.provisioner import HOST, INSTANCE
from placement_core.testing.fakes import MemoryCompute
from tests import distributions
from tests.functional.reservations.outbox_cases import OutboxTestCase
from tests.functional.reservations.provisioner_cases import PROJECT


class Earlier(MemoryCompute):
    """A driver that was written before ends could be put off."""

    def __init__(self, conf):
        super().__init__(["one", "two"])

    def snapshot_host_servers(self, reservation_id, host):
        return super().snapshot_host_servers(reservation_id, host)


class TestDesigns(OutboxTestCase):
    """Which calls each happening consists of."""

    def test_slots_of_an_aggregate(self):
        lent, reservation = self.lease(fields={"affinity": False})
        self.make(lent)
        self.work()
        self.assertEqual(["put_flavor", "put_slot_aggregate"], self.names())
        flavor = self.compute.flavors[reservation.id]
        self.assertEqual(
            ((2, 1024, 10), True, slots.resource_class(reservation.id), set()),
            (flavor.size, flavor.in_aggregate, flavor.resource_class, flavor.projects))
        self.start(lent, {self.one: 1, self.two: 1})
        self.work()
        self.assertEqual(
            ["put_flavor", "put_slot_aggregate", "add_host", "add_host", "grant_flavor"],
            self.names())
        self.assertEqual(("slot", PROJECT, {"one", "two"}),
                         self.compute.aggregates[reservation.id])
        self.assertEqual({"one", "two"}, self.compute.freepool)
        self.assertEqual({PROJECT}, self.compute.flavors[reservation.id].projects)
        self.change(lent, {self.one: 1, self.two: 1}, {self.one: 1})
        self.work()
        self.assertEqual(["remove_host"], self.names())
        self.change(lent, {self.one: 1}, {self.one: 3, self.two: 1})
        self.work()
        self.assertEqual(["put_slot_aggregate", "add_host", "add_host"], self.names())
        self.end(lent, {self.one: 3, self.two: 1})
        self.work()
        self.assertEqual(["revoke_flavor", "delete_flavor_servers", "remove_host", "remove_host",
                          "remove_aggregate", "remove_flavor", "remove_server_group"],
                         self.names())
        self.assertEqual(({}, {"one", "two"}), (self.compute.made(), self.compute.freepool))

    def test_slots_in_placement(self):
        self.provisioner = self.make_provisioner(design="placement")
        lent, reservation = self.lease(fields={"affinity": True})
        self.provisioner.add_host(self.ctx, self.one.host)
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work()
        self.assertEqual(["put_flavor", "put_flavor", "grant_flavor"], self.names())
        flavor = self.compute.flavors[reservation.id]
        self.assertEqual(
            (f"CUSTOM_RESERVATION_{reservation.id.upper().replace('-', '_')}", False),
            (flavor.resource_class, flavor.in_aggregate))
        self.end(lent, {self.one: 1})
        self.work()
        self.assertEqual({}, self.compute.made())

    def test_a_change_before_the_start(self):
        """The flavor follows the fields."""
        lent, reservation = self.lease(fields={"affinity": True})
        self.make(lent)
        self.work()
        self.change(lent, {self.one: 1}, {self.two: 1}, status="pending",
                    fields={"vcpus": 4, "affinity": None})
        self.work()
        self.assertEqual((4, 1024, 10), self.compute.flavors[reservation.id].size)

    def test_changes_that_nobody_carried_out_yet(self):
        lent, reservation = self.lease()
        self.make(lent)
        for vcpus in (4, 8):
            self.change(lent, {}, {}, status="pending", fields={"vcpus": vcpus})
        self.work()
        self.assertEqual(["put_flavor", "put_slot_aggregate"], self.names())
        self.assertEqual(8, self.compute.flavors[reservation.id].size[0])

    def test_hosts(self):
        lent, reservation = self.lease(HOST, {"before_end": "snapshot"})
        self.compute.boot("one", project_id="other", preemptible=True)
        self.make(lent)
        self.start(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(
            ["put_host_aggregate", "put_host_aggregate", "delete_preemptible_servers",
             "delete_preemptible_servers", "add_host", "remove_from_freepool"],
            [call[0] for call in self.compute.calls if "two" not in call])
        self.assertEqual(
            (set(), {"one", "two"}, {}, int(self.compute.put_host_aggregate(
                reservation.id, PROJECT))),
            (self.compute.freepool, self.compute.aggregates[reservation.id][2],
             self.compute.servers, self.kept(reservation)["aggregate_id"]))
        self.compute.boot("one", project_id=PROJECT)
        self.prepare_end(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(1, len(self.compute.images))
        self.end(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(({}, {"one", "two"}, {}),
                         (self.compute.made(), self.compute.freepool, self.compute.servers))

    def test_leases_from_before_there_was_a_compute_service(self):
        """``compute_driver`` was ``none``: what begins later gets all that it needs."""
        for resource_type in (INSTANCE, HOST):
            lent, reservation = self.lease(resource_type)
            self.provisioner = self.make_provisioner(design="placement", acts=False)
            self.make(lent)
            self.provisioner = self.make_provisioner()
            self.start(lent, {self.one: 1})
            self.work_until_done()
            self.assertEqual({"one"}, self.compute.aggregates[reservation.id][2])
            self.end(lent, {self.one: 1})
            self.work_until_done()
            self.assertEqual({}, self.compute.made())

    def test_images_of_a_later_end(self):
        """The end was put off: what was done since is in new images."""
        lent, reservation = self.lease(HOST, {"before_end": "snapshot"})
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        server = self.compute.boot("one", project_id=PROJECT)
        due_at = datetime.datetime(2027, 1, 1, 23, tzinfo=datetime.UTC)
        for days, count in ((0, 1), (0, 1), (7, 2), (7, 2)):
            self.prepare_end(lent, {self.one: 1}, due_at + datetime.timedelta(days))
            self.work_until_done()
            self.assertEqual([(reservation.id, server)] * count, self.compute.images)

    def test_a_driver_that_knows_no_later_end(self):
        """It is called without, and so are calls that an earlier release wrote."""
        self.useFixture(distributions.Distribution("theirs", {
            "placement_core.compute": [f"earlier = {__name__}:Earlier"]}))
        self.compute = drivers.make(
            cfg.ConfigOpts(), DriverChoice("compute", "earlier", "[reservations] compute_driver"),
            ComputeDriver)
        lent, reservation = self.lease(HOST, {"before_end": "snapshot"})
        self.prepare_end(
            lent, {self.one: 1}, datetime.datetime(2027, 1, 1, 23, tzinfo=datetime.UTC))
        self.prepare_end(lent, {self.two: 1})
        self.work_until_done()
        self.assertEqual(
            {("snapshot_host_servers", reservation.id, host) for host in ("one", "two")},
            set(self.compute.calls))

    def test_an_end_after_a_host_failed(self):
        """The host that was released enters the freepool, though nobody had seen to it yet."""
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(set(), self.compute.freepool)
        self.change(lent, {self.one: 1, self.two: 1}, {self.two: 1})
        self.end(lent, {self.two: 1})
        self.work_until_done()
        self.assertEqual(({}, {"one", "two"}), (self.compute.made(), self.compute.freepool))

    def test_an_end_waits_for_images(self):
        self._with_image_to_make()
        self.work()
        self.assertEqual(["delete_host_servers"], [
            name for name in self.waiting() if name.startswith("delete")])
        self.names()
        self.work_until_done()
        self.assertEqual(["snapshot_host_servers", "delete_host_servers"], self.names()[:2])
        self.assertEqual((1, {}), (len(self.compute.images), self.compute.servers))

    def test_images_that_cannot_be_made(self):
        """An end does not wait for them longer than for servers."""
        self.provisioner = self.make_provisioner(patience_seconds=0)
        self.failing("snapshot_host_servers", ComputeRefused("no room"), times=100)
        self._with_image_to_make()
        self.work_until_done()
        self.assertEqual((0, {}), (len(self.compute.images), self.compute.servers))

    def test_images_during_an_outage(self):
        """Servers are not deleted without them because nobody could be asked for them."""
        self._with_image_to_make()
        self.failing("snapshot_host_servers", ComputeUnavailable("no"), times=2)
        for _ in range(2):
            self.work()
            self.give_up()
            self.pass_time()
        self.assertEqual(1, len(self.compute.servers))
        self.work_until_done()
        self.assertEqual((1, {}), (len(self.compute.images), self.compute.servers))

    def _with_image_to_make(self):
        lent, _ = self.lease(HOST, {"before_end": "snapshot"})
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT)
        self.prepare_end(lent, {self.one: 1})
        self.end(lent, {self.one: 1})

    def test_no_snapshot(self):
        lent, _ = self.lease(HOST)
        self.prepare_end(lent, {self.one: 1})
        self.assertEqual([], self.waiting())

    def test_hosts_without_a_freepool(self):
        """Where placement counts slots there is none to leave."""
        self.provisioner = self.make_provisioner(design="placement")
        self.compute.freepool = set()
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.end(lent, {self.one: 1})
        self.work_until_done()
        self.assertEqual(({}, set()), (self.compute.made(), self.compute.freepool))

    def test_a_failed_host_of_a_host_reservation(self):
        """Another takes its place; a call about it that is refused holds nothing up."""
        lent, reservation = self.lease(HOST)
        self.make(lent)
        self.compute.known_hosts = {"two"}
        self.start(lent, {self.one: 1})
        self.work()
        self.assertEqual(["add_host", "remove_from_freepool"], self.waiting())
        self.compute.known_hosts = {"one", "two"}
        self.change(lent, {self.one: 1}, {self.two: 1})
        self.work_until_done()
        self.assertEqual(({"one"}, {"two"}),
                         (self.compute.freepool, self.compute.aggregates[reservation.id][2]))

    def assert_comes_after_the_servers_went(self, reservation):
        """Check that a reservation gets host "one" when the servers there are gone."""
        self.names()
        self.work()
        self.assertEqual({"delete_host_servers", "put_host_aggregate"}, set(self.names()))
        self.work_until_done()
        self.assertEqual(({"two"}, {"one"}, {}),
                         (self.compute.freepool, self.compute.aggregates[reservation.id][2],
                          self.compute.servers))

    def test_who_comes_to_a_host_waits_until_it_was_left(self):
        """A server that does not die is nobody else's, and the end harms nobody."""
        self.compute.patience = 1
        left, _ = self.lease(HOST)
        self.make(left)
        self.start(left, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT)
        comes, reservation = self.lease(HOST)
        self.make(comes)
        self.end(left, {self.one: 1})
        self.start(comes, {self.one: 1})
        self.assert_comes_after_the_servers_went(reservation)

    def test_whole_hosts_of_another_type(self):
        """The calls are those of ``physical:host``; the aggregate is made with the first host."""
        lent, reservation = self.lease("physical:gpu")
        self.make(lent)
        self.assertEqual([], self.waiting())
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.assertEqual(["put_host_aggregate", "delete_preemptible_servers", "add_host",
                          "remove_from_freepool"], self.names())
        self.change(lent, {self.one: 1}, {self.two: 1})
        self.work_until_done()
        self.assertEqual(({"one"}, ("host", PROJECT, {"two"})),
                         (self.compute.freepool, self.compute.aggregates[reservation.id]))
        self.change(lent, {self.two: 1}, {})
        self.end(lent)
        self.work_until_done()
        self.assertEqual(({}, {"one", "two"}), (self.compute.made(), self.compute.freepool))

    def test_slots_that_become_whole_hosts(self):
        """A plugin may let what a reservation in force needs change."""
        lent, _ = self.lease("physical:gpu")
        whole = self.shares(lent, {self.one: 1})
        slots_ = [dataclasses.replace(share, whole=False) for share in whole]
        self._do("start", lent, "active", slots_)
        self.assertEqual([], self.waiting())
        for before, after, inside in ((slots_, whole, {"two"}), (whole, slots_, {"one", "two"})):
            self._do("change", lent, "active", before, after)
            self.work_until_done()
            self.assertEqual(inside, self.compute.freepool)
        self._do("end", lent, "deleted", slots_, was_in_force=True)
        self.work_until_done()
        self.assertEqual({}, self.compute.made())

    def test_who_comes_to_a_host_waits_until_slots_were_left(self):
        """In both designs: the flavor's servers go, then the host changes hands."""
        self.compute.patience = 1
        for design, freepool in (("placement", set()), ("aggregate", {"two"})):
            self.provisioner = self.make_provisioner(design=design)
            self.compute.freepool = {"one", "two"} if freepool else set()
            left, before = self.lease()
            self.make(left)
            self.start(left, {self.one: 1})
            self.work_until_done()
            self.compute.boot("one", project_id=PROJECT, lease=before.id)
            comes, reservation = self.lease(HOST)
            self.make(comes)
            self.end(left, {self.one: 1})
            self.start(comes, {self.one: 1})
            self.names()
            self.work()
            self.assertEqual(
                {"revoke_flavor", "delete_flavor_servers", "put_host_aggregate"},
                set(self.names()))
            self.work_until_done()
            self.assertEqual((freepool, {reservation.id: {"aggregate"}}, {"one"}, {}), (
                self.compute.freepool, self.compute.made(),
                self.compute.aggregates[reservation.id][2], self.compute.servers))
            self.end(comes, {self.one: 1})
            self.work_until_done()

    def test_hosts_of_a_reservation_do_not_wait_for_each_other(self):
        self.compute.patience = 3
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        for name in ("one", "two"):
            self.compute.boot(name, project_id=PROJECT)
        self.end(lent, {self.one: 1, self.two: 1})
        self.assertEqual(CallCounts(waiting=2), self.work())

    def test_hosts_come_and_go(self):
        self.compute.freepool = set()
        self.provisioner.add_host(self.ctx, self.one.host)
        self.work()
        self.assertEqual((["add_to_freepool"], {"one"}),
                         (self.names(), self.compute.freepool))
        self.provisioner.add_host(self.ctx, self.two.host)
        self.provisioner.remove_host(self.ctx, self.two.host)
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.work()
        self.assertEqual((["remove_from_freepool"] * 2, set()),
                         (self.names(), self.compute.freepool))

    def test_a_host_that_comes_back_before_it_was_left(self):
        """Its next reservation waits for the servers of the one from before its removal."""
        self.compute.patience = 1
        left, _ = self.lease(HOST)
        self.make(left)
        self.start(left, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT)
        self.end(left, {self.one: 1})
        self.provisioner.remove_host(self.ctx, self.one.host)
        back = dataclasses.replace(self.one, host=dataclasses.replace(self.one.host, id=99))
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.computehosts).where(
                tables.computehosts.c.id == self.one.host.id).values(id=back.host.id))
        self.provisioner.add_host(self.ctx, back.host)
        comes, reservation = self.lease(HOST)
        self.make(comes)
        self.start(comes, {back: 1})
        self.assert_comes_after_the_servers_went(reservation)

    def test_a_host_that_the_compute_service_lost(self):
        """Its removal here discards the calls that are refused, so the others are made."""
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.compute.known_hosts = {"two"}
        self.end(lent, {self.one: 1})
        self.work()
        self.assertEqual(["add_to_freepool", "remove_host", "remove_aggregate"], self.waiting())
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.work_until_done()
        self.assertEqual(({}, {"two"}), (self.compute.made(), self.compute.freepool))

    def test_a_host_that_leaves_during_a_call(self):
        """The call is refused then, and not made again."""
        def leave(*call):
            self.compute.before = lambda *call: None
            self.provisioner.remove_host(self.ctx, self.one.host)
            raise ComputeRefused("There is no such host.")

        self.provisioner.add_host(self.ctx, self.one.host)
        self.compute.before = leave
        self.assertEqual(1, self.work(most=1).failed)
        self.assertEqual(["remove_from_freepool"], self.waiting())
        self.work_until_done()
        self.assertEqual({"two"}, self.compute.freepool)

    def test_without_a_compute_service(self):
        """Nothing is ever written to the outbox."""
        self.provisioner = self.make_provisioner(design="placement", acts=False)
        self.provisioner.add_host(self.ctx, self.one.host)
        for resource_type in ("virtual:instance", HOST):
            lent, _ = self.lease(resource_type, {"before_end": "snapshot"}
                                 if resource_type == HOST else None)
            self.make(lent)
            self.change(lent, {self.one: 1}, {self.one: 1}, status="pending")
            self.start(lent, {self.one: 1})
            self.prepare_end(lent, {self.one: 1})
            self.change(lent, {self.one: 1}, {self.two: 1})
            self.end(lent, {self.two: 1})
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.assertEqual([], self.waiting())
