"""What takes long to play with leases in a nova, in both designs: a part of ``make test-nova``."""

from __future__ import annotations

from typing import Any

from tests.nova import clients, deployment
from tests.nova.clients import host_reservation, instance_reservation
from tests.nova.test_leases import FREEPOOL, ORDINARY, LeasesTestCase


class _Leases:
    """The plays; each design is a class of its own."""

    def test_many_hosts(self: Any) -> None:
        """All hosts of a lease can be used."""
        cloud, mona = self.cloud, self.mona
        lease = self.lease(mona, host_reservation(3))
        hint = {"reservation": lease["reservations"][0]["id"]}
        self.expect("servers on reserved hosts", sorted(
            self.boot(mona, deployment.LARGE_FLAVOR, count=3, hints=hint)()), sorted(FREEPOOL))
        mona.end_lease(lease["id"])
        cloud.wait_for_outbox()
        lease = self.lease(mona, instance_reservation(3, False))
        flavor = lease["reservations"][0]["flavor_id"]
        self.expect("servers apart", sorted(self.boot(mona, flavor, count=3)()),
                    sorted(FREEPOOL))

    def test_nova_is_away_at_the_start(self: Any) -> None:
        """Leases start on time; what they need is there when nova is."""
        cloud, mona = self.cloud, self.mona
        cloud.stop_nova_api()
        self.addCleanup(cloud.start_nova_api)
        lease = mona.lease("a", host_reservation(), instance_reservation(2, False))
        mona.wait_for_lease(lease["id"])
        cloud.start_nova_api()
        cloud.wait_for_outbox()
        host, slots = mona.show_lease(lease["id"])["reservations"]
        reserved = self.boot(mona, hints={"reservation": host["id"]})()
        apart = self.boot(mona, slots["flavor_id"], count=2)()
        self.assertEqual(sorted(FREEPOOL), sorted([*reserved, *apart]))
        cloud.clear()
        self.assertEqual(set(), cloud.made_in_nova())

    def test_placement_is_away_at_the_start(self: Any) -> None:
        """Nova tells Placement which hosts are in an aggregate, once; it may not be heard."""
        cloud, mona = self.cloud, self.mona
        api, manager = cloud.process("placement"), cloud.process("manager")
        manager.stop()
        self.addCleanup(manager.start)
        lease = mona.lease("a", host_reservation(), instance_reservation(1, None))
        api.stop()
        self.addCleanup(api.start)
        manager.start()
        clients.wait_for("calls that fail", lambda: any(
            each["call"] == "add_host" and each["problem"] for each in cloud.outbox()))
        api.start()
        api.wait()
        cloud.wait_for_outbox()
        host, slots = mona.show_lease(lease["id"])["reservations"]
        reserved = self.boot(mona, hints={"reservation": host["id"]})
        anyhow = self.boot(mona, slots["flavor_id"])
        self.assertLessEqual({*reserved(), *anyhow()}, set(FREEPOOL))

    def test_the_design_changes(self: Any) -> None:
        """Hosts are in the freepool, and leases in force, when the design becomes this one."""
        cloud, mona = self.cloud, self.mona
        before = {"placement": "aggregate", "aggregate": "placement"}[self.design]
        self.have_design(before)
        self.wait_for_freepool()
        if before == "placement":
            cloud.forget_freepool()
        older = self.lease(mona, host_reservation(), instance_reservation(2, False))
        host, slots = older["reservations"]
        reserved = self.boot(mona, hints={"reservation": host["id"]})
        reserved_host = reserved()[0]
        self.have_design(self.design)
        self.wait_for_freepool(set(FREEPOOL) - {reserved_host})
        reserved = self.boot(mona, hints={"reservation": host["id"]})
        apart = self.boot(mona, slots["flavor_id"], count=2)
        self.expect("a host reserved before", reserved(), [reserved_host])
        self.expect("slots reserved before", sorted({*reserved(), *apart()}), sorted(FREEPOOL))
        mona.end_lease(older["id"])
        self.wait_for_freepool()
        newer = self.lease(mona, host_reservation(), instance_reservation(2, False))
        host, slots = newer["reservations"]
        reserved = self.boot(mona, hints={"reservation": host["id"]})
        apart = self.boot(mona, slots["flavor_id"], count=2)
        others = self.boot(self.otto)
        self.expect("hosts reserved afterwards", sorted({*reserved(), *apart()}),
                    sorted(FREEPOOL))
        self.expect("another project's servers", others(), [ORDINARY])
        cloud.clear()
        self.assertEqual(set(), cloud.made_in_nova())


class LongPlaysOfPlacementDesign(_Leases, LeasesTestCase):
    """Slots are inventories of a resource class."""

    design = "placement"


class LongPlaysOfAggregateDesign(_Leases, LeasesTestCase):
    """Slots are hosts of an aggregate."""

    design = "aggregate"
