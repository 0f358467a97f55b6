"""The contract of reservation plugins: ours, and one that somebody else published."""

from __future__ import annotations

import sys

from oslo_config import cfg

from placement_core.plugin_api import loader
from placement_core.plugin_api.reservations import DoesNotFit, ReservationPlugin, Window
from placement_core.reservations.scheduling import availability, planner
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.testing import reservations
from placement_core.testing.reservations import HOSTS, ReservationsContract
from placement_plugins.reservations import host, instance
from tests import base
from tests.plugins.reservations import pools
from tests.third_party import installing

_BAD_REQUIREMENTS = (1, ["=", "$vcpus", "8"], None, "[", '["xor", ["=", "$vcpus", "8"]]',
                     '["=", "$no_such_property", "8"]', "[" * 1000, "x" * 5000)


class TestHosts(ReservationsContract, base.TestCase):
    fields = {
        "min": 1, "max": 2, "hypervisor_properties": '[">=", "$vcpus", "8"]',
        "resource_properties": "", "before_end": "snapshot"}
    refused = (
        {"min": 3}, {"min": 2, "max": 1}, {"before_end": "sometimes"}, {"before_end": 1},
        *({field: bad} for bad in _BAD_REQUIREMENTS
          for field in ("hypervisor_properties", "resource_properties")))

    def plugin(self) -> ReservationPlugin:
        return host.HostReservations(cfg.ConfigOpts())


class TestHostsOfOneKind(TestHosts):
    """The demand says where the hosts are to lie, too."""

    fields = {**TestHosts.fields,
              "resource_properties": '["==", "$within", "property:hypervisor_type"]'}


class _Instances(ReservationsContract):
    affinity: object
    may_be_zero = ("disk_gb",)
    refused = (
        {"affinity": "maybe"}, {"affinity": 1}, {"affinity": 0.0}, {"affinity": ""},
        *({"resource_properties": bad} for bad in _BAD_REQUIREMENTS))

    @property
    def fields(self):
        return {"vcpus": 2, "memory_mb": 512, "disk_gb": 1, "amount": 2,
                "affinity": self.affinity, "resource_properties": ""}

    def plugin(self) -> ReservationPlugin:
        return instance.InstanceReservations(cfg.ConfigOpts())


class TestInstancesAnywhere(_Instances, base.TestCase):
    affinity = None


class TestInstancesTogether(_Instances, base.TestCase):
    affinity = True


class TestInstancesApart(_Instances, base.TestCase):
    affinity = False


class TestLicences(base.TestCase):
    """A plugin in a distribution of its own, for what is on no host.

    ``tests.third_party`` asks it what the contract says.
    """

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(installing.Installed("reservations", "virtual:licence"))

    def plugin(self) -> ReservationPlugin:
        found = loader.load("placement_core.reservations", "virtual:licence", ReservationPlugin,
                            option="[reservations] plugins")
        module = sys.modules[found.__module__]
        conf = cfg.ConfigOpts()
        conf.register_opts(module.OPTIONS, group=module.GROUP)
        conf.set_override("products", {"matlab": "7", "ansys": "2"}, group=module.GROUP)
        return found(conf)

    def test_what_fell_short(self) -> None:
        """Two reservations of one lease add up, and others have some of it in a part."""
        world = pools.oracle.World({1: (4, 4, 4)}, [], licences=7)
        plugin = self.plugin()
        three = _asked(plugin, "matlab", 3)
        pool = pools.pool(world)
        self.assertEqual(
            [{"matlab": 3}, {"matlab": 3}, {"ansys": 1}],
            [each.amounts for each in planner.plan(
                pool, pools.window(0, 5), [three, three, _asked(plugin, "ansys", 1)])])
        lent = pools.AmountBooking(
            ("virtual:licence", "matlab"), pools.at(2), pools.at(4), 3)
        pool._amounts = [lent]
        error = self.assertRaises(
            DoesNotFit, planner.plan, pool, pools.window(0, 5), [three, three])
        self.assertEqual({"matlab": 2}, error.missing)
        self.assertEqual(pools.window(2, 4), error.during)
        self.assertIn("6 matlab were asked for, 4 of 7 are free", str(error))
        found = availability.next_fit(pool, pools.at(0), 5 * pools.MINUTE, [three, three])
        self.assertEqual(availability.FittingWindow(pools.window(4, 9)), found)

    def test_with_hosts_in_one_lease(self) -> None:
        plugin = host.HostReservations(cfg.ConfigOpts())
        lease = [_asked(self.plugin(), "matlab", 7),
                 ReservationRequest(plugin, reservations.ReservationSpec(
                     "h", "p", plugin.values(TestHosts.fields)))]
        licences, hosts = planner.plan(
            reservations.Pool(HOSTS, reservations.Bookings.of([])), Window.of(0, 60), lease)
        self.assertEqual(({"matlab": 7}, []), (licences.amounts, list(licences.shares)))
        self.assertEqual([3, 8], [share.host_id for share in hosts.shares])


def _asked(plugin, product, amount):
    return ReservationRequest(plugin, reservations.ReservationSpec(
        "r", "p", plugin.values({"product": product, "amount": amount})))
