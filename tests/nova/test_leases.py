"""What people do with leases in a nova, in both designs of instance reservations.

Hosts c1, c2 and c3 are in the freepool, c4 is not. Mona and Otto are ordinary members of two
projects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from testtools import matchers

from tests import base
from tests.nova import clients, deployment
from tests.nova.clients import host_reservation, instance_reservation

#: Hosts that can be reserved, and the other one.
FREEPOOL = ("c1", "c2", "c3")
ORDINARY = "c4"


class LeasesTestCase(base.TestCase):
    """A running nova, with leases of nobody in it."""

    design: str

    def setUp(self) -> None:
        super().setUp()
        missing = deployment.missing()
        if missing is not None:
            self.skipTest(f"a real nova needs {missing}")
        self.cloud = deployment.shared()
        self.addOnException(lambda _error: self.cloud.keep_logs())
        self.mona, self.otto = self.cloud.member, self.cloud.other
        self.have_design(self.design)
        for host in FREEPOOL:
            self.cloud.have_in_freepool(host)
        self.addCleanup(self.cloud.clear)
        self.wait_for_freepool()

    def have_design(self, design: str) -> None:
        """Have our service work with a design."""
        if self.cloud.design != design:
            self.cloud.change_design(design)

    def wait_for_freepool(self, hosts: Iterable[str] = FREEPOOL) -> None:
        """Wait until hosts that nobody has reserved are where the design has them."""
        self.cloud.wait_for_outbox()
        expected = sorted(hosts) if self.cloud.design == "aggregate" else []
        clients.wait_for("the freepool", lambda: self.cloud.freepool() == expected)
        self.cloud.wait_for_outbox()

    def lease(self, client: clients.Client, *reservations: Mapping[str, Any]) -> Any:
        """Make a lease that starts now, and wait until nova knows it; return it."""
        made = client.lease("a", *reservations)
        client.wait_for_lease(made["id"])
        self.cloud.wait_for_outbox()
        return client.show_lease(made["id"])

    def boot(
        self, client: clients.Client, flavor: str = deployment.FLAVOR, *, count: int = 1,
        **options: Any,
    ) -> Callable[[], list[str]]:
        """Ask for servers, one after the other; return what says where they are."""
        return self._places(client, [
            client.boot(f"vm-{number}", flavor, **options) for number in range(count)])

    def _places(self, client: clients.Client, ids: list[str]) -> Callable[[], list[str]]:
        def places() -> list[str]:
            servers = [client.wait_for_server(id_) for id_ in ids]
            return [
                (self.cloud.host_of(server["id"]) or "") if server["status"] == "ACTIVE"
                else server.get("fault", {}).get("message", server["status"])
                for server in servers]

        return places

    def expect(self, what: str, actual: object, expected: object) -> None:
        """Note that something is not as it should be, and go on."""
        if not isinstance(expected, matchers.Equals | matchers.MatchesAll):
            expected = matchers.Equals(expected)
        self.expectThat(actual, matchers.Annotate(what, expected))


class _Leases:
    """The play of each run; each design is a class of its own. ``long_plays`` has more."""

    def test_everything_at_once(self: Any) -> None:
        """Both kinds of leases and ordinary servers of one project, beside another one."""
        cloud, mona, otto = self.cloud, self.mona, self.otto
        lease = self.lease(
            mona, host_reservation(), instance_reservation(2, False),
            instance_reservation(2, True), instance_reservation(2, None))
        host, *slots = lease["reservations"]
        theirs = self.lease(otto, instance_reservation(1, None))["reservations"][0]
        apart = self._places(mona, mona.boot_together("vm", slots[0]["flavor_id"], 2))
        together, anyhow = (self.boot(mona, each["flavor_id"], count=2) for each in slots[1:])
        hint = {"reservation": host["id"]}
        reserved = self.boot(mona, hints=hint)
        in_zone = self.boot(mona, hints=hint, zone=f"blazar_{host['id']}")
        ordinary = self.boot(mona)
        others = self.boot(otto, count=2)
        others_slot = self.boot(otto, theirs["flavor_id"])
        intruders = self.boot(otto, hints=hint, count=2)
        reserved_host = reserved()[0]
        self.assertIn(reserved_host, FREEPOOL)
        self.expect("servers in the reservation's zone", in_zone(), [reserved_host])
        remaining = sorted(set(FREEPOOL) - {reserved_host})
        self.expect("servers apart", sorted(apart()), remaining)
        self.expect("servers together", together(), [
            host for host in remaining if host in together()] * 2)
        self.expect("servers anyhow", set(anyhow()) <= set(remaining), True)
        self.expect("ordinary servers", ordinary(), [ORDINARY])
        self.expect("another project's ordinary servers", others(), [ORDINARY] * 2)
        self.expect("another project's slot", set(others_slot()) <= set(remaining), True)
        self.expect("another project with the reservation's hint",
                    [each.startswith("No valid host") for each in intruders()], [True] * 2)
        more = [self.boot(mona, each["flavor_id"]) for each in slots]
        self.expect("more servers than slots",
                    [place()[0].startswith("No valid host") for place in more], [True] * 3)
        for each in slots:
            refusal = self.assertRaises(clients.Refused, otto.boot, "vm", each["flavor_id"])
            self.expect("another project's flavor", refusal.status, 400)
            if each["server_group_id"]:
                self._expect_group_usable(each)
        mona.end_lease(lease["id"])
        cloud.wait_for_outbox()
        self.expect("servers after the lease",
                    sorted(cloud.host_of(server["id"]) for server in mona.servers()
                           if server["status"] == "ACTIVE"), [ORDINARY])
        self.expect("another project's lease stays",
                    [server["id"] for server in otto.servers()
                     if cloud.host_of(server["id"]) in FREEPOOL] != [], True)
        cloud.clear()
        self.assertEqual(set(), cloud.made_in_nova())

    def _expect_group_usable(self: Any, reservation: Mapping[str, Any]) -> None:
        """A group that a lease shows can be used by those who leased it."""
        server = self.mona.servers(flavor=reservation["id"])[0]
        self.mona.delete_server(server["id"])
        try:
            place = self.boot(self.mona, reservation["flavor_id"], hints={
                "group": reservation["server_group_id"]})()
        except clients.Refused as refusal:
            place = [str(refusal)]
        self.expect("a server with the hint of the group", set(place) <= set(FREEPOOL), True)

    def test_nova_is_away_at_the_end(self: Any) -> None:
        """Leases end on time; who comes next waits until their servers have gone."""
        cloud, mona, otto = self.cloud, self.mona, self.otto
        lease = self.lease(mona, host_reservation(2), instance_reservation(2, True))
        host, slots = lease["reservations"]
        reserved = self.boot(mona, count=2, hints={"reservation": host["id"]})
        together = self.boot(mona, slots["flavor_id"], count=2)
        self.assertLessEqual({*reserved(), *together()}, set(FREEPOOL))
        cloud.stop_nova_api()
        self.addCleanup(cloud.start_nova_api)
        mona.end_lease(lease["id"])
        next_lease = otto.lease("b", host_reservation(3))
        otto.wait_for_lease(next_lease["id"])
        cloud.start_nova_api()
        cloud.wait_for_outbox()
        self.assertEqual([], mona.servers())
        # Allocations go with servers, a moment later.
        next_id = next_lease["reservations"][0]["id"]
        places = self.boot(
            otto, deployment.LARGE_FLAVOR, count=3, hints={"reservation": next_id})()
        self.assertEqual(sorted(FREEPOOL), sorted(places))
        cloud.clear()
        self.assertEqual(set(), cloud.made_in_nova())


class TestPlacementDesign(_Leases, LeasesTestCase):
    """Slots are inventories of a resource class."""

    design = "placement"


class TestAggregateDesign(_Leases, LeasesTestCase):
    """Slots are hosts of an aggregate."""

    design = "aggregate"
