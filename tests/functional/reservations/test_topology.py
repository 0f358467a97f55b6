"""Leases that lie in one rack, in few racks, or in many; from booking to repair."""

from __future__ import annotations

import json

from placement_core.placement import aggregates
from placement_core.plugin_api.reservations import DoesNotFit, InvalidReservation
from placement_core.reservations.errors import CapabilityInUse, InvalidLease
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.records import ChangedReservation, LeaseChange
from placement_core.testing import factories
from tests import databases
from tests.functional.reservations.pool_cases import PoolTestCase, slots, whole

_RACK = "aggregate:trait=CUSTOM_RACK"


def rules(*conditions, **levels):
    """Return requirements with rules, as clients write them."""
    return json.dumps(["and", *(["==", f"${word}", level] for word, level in levels.items()),
                       *conditions])


@databases.on_each_database
class TestRacks(PoolTestCase):
    """Racks a and b, of three hosts each; a host has room for two slots."""

    def setUp(self) -> None:
        super().setUp()
        self.racks = {}
        for rack in "ab":
            uuid = self.racks[rack] = factories.new_uuid()
            factories.provider(
                self.ctx, f"rack-{rack}", aggregates=[uuid], traits=["CUSTOM_RACK"])
            for number in (1, 2, 3):
                host = self.host(f"{rack}{number}", {"row": f"row-{number}"})
                self.enter(host, rack)

    def enter(self, host, rack):
        aggregates.replace_for_provider(
            self.ctx, host.provider_uuid, [self.racks[rack]], generation=None)

    def host_named(self, name):
        return host_queries.find(self.context(), name)

    def spread(self, lease):
        """Return how much of a lease lies in each rack."""
        counts = {"a": 0, "b": 0}
        for name, count in self.held(lease).items():
            counts[name[0]] += count
        return tuple(counts.values())

    def grow(self, lease, **fields):
        return self.leases.change(self.context(), lease.id, LeaseChange(reservations=[
            ChangedReservation(lease.reservations[0].id, None, fields)]))

    def test_within(self):
        within = rules(within=_RACK)
        self.assertIn(self.spread(self.lease(slots(5, resource_properties=within))),
                      [(5, 0), (0, 5)])
        self.assertIn(self.spread(self.lease(whole(3, resource_properties=within))),
                      [(3, 0), (0, 3)])

    def test_a_refusal_names_the_largest(self):
        self.lease(whole(1, hypervisor_properties='["==", "$hypervisor_hostname", "a1"]'))
        error = self.assertRaises(DoesNotFit, self.lease, slots(
            7, resource_properties=rules(within=_RACK)))
        self.assertIn("7 slots of 4 VCPU, 1 MiB of memory and 1 GiB of disk were asked for, "
                      "6 fit", str(error))
        self.assertIn(f"the largest {_RACK} (rack-b) holds 6 of 7", str(error))
        self.assertEqual({"slots": 1, "VCPU": 4}, error.missing)
        error = self.assertRaises(DoesNotFit, self.lease, whole(
            4, resource_properties=rules(within=_RACK)))
        self.assertIn("4 hosts were asked for, 3 fit", str(error))
        self.assertIn(f"the largest {_RACK} (rack-b) holds 3 of 4", str(error))

    def test_pack_and_spread(self):
        for fields, expected in (
            (slots(6, resource_properties=rules(pack_by=_RACK)), [(6, 0), (0, 6)]),
            (slots(8, resource_properties=rules(pack_by=_RACK)), [(6, 2), (2, 6)]),
            (slots(6, resource_properties=rules(spread_by=_RACK)), [(3, 3)]),
            (slots(3, affinity=False, resource_properties=rules(pack_by=_RACK)),
             [(3, 0), (0, 3)]),
            (whole(2, 4, resource_properties=rules(spread_by=_RACK)), [(2, 2)]),
            (whole(2, 3, resource_properties=rules(pack_by=_RACK)), [(3, 0), (0, 3)]),
        ):
            lease = self.lease(fields)
            self.assertIn(self.spread(lease), expected, fields)
            self.leases.delete(self.context(), lease.id)

    def test_by_hosts(self):
        for word, hosts in (("pack_by", 3), ("spread_by", 6)):
            lease = self.lease(slots(6, resource_properties=rules(**{word: "host"})))
            self.assertEqual(hosts, len(self.held(lease)), word)
            self.leases.delete(self.context(), lease.id)

    def test_by_a_property(self):
        lease = self.lease(whole(2, resource_properties=rules(within="property:row")))
        self.assertEqual(1, len({name[1] for name in self.held(lease)}))
        name = min(self.held(lease))
        self.assertRaises(CapabilityInUse, self.pool.change, self.context(),
                          str(self.host_named(name).id), {"row": "row-9"})

    def test_with_requirements(self):
        """Only what meets them counts as room."""
        rack_a = ["or", *(["==", "$hypervisor_hostname", name] for name in ("a1", "b1", "b2"))]
        lease = self.lease(slots(4, resource_properties=rules(rack_a, within=_RACK)))
        self.assertEqual({"b1": 2, "b2": 2}, self.held(lease))

    def test_in_force_it_grows_where_it_is(self):
        lease = self.lease(slots(2, resource_properties=rules(within=_RACK)), hours=(0, 10))
        self.activate(lease)
        [rack] = {name[0] for name in self.held(lease)}
        self.grow(lease, amount=6)
        self.assertEqual({rack}, {name[0] for name in self.held(lease)})
        error = self.assertRaises(DoesNotFit, self.grow, lease, amount=7)
        self.assertIn(f"it lies within the {_RACK} rack-{rack}, which holds 6 of 7", str(error))

    def test_in_force_it_stays_even(self):
        lease = self.lease(slots(2, resource_properties=rules(spread_by=_RACK)), hours=(0, 10))
        self.activate(lease)
        self.grow(lease, amount=5)
        self.assertIn(self.spread(lease), [(3, 2), (2, 3)])
        self.grow(lease, amount=6)
        self.assertEqual((3, 3), self.spread(lease))

    def test_a_later_lease_may_move(self):
        """What has not started lies anew where it lies better."""
        lease = self.lease(slots(2, resource_properties=rules(within=_RACK)), hours=(2, 10))
        [rack] = {name[0] for name in self.held(lease)}
        other = {"a": "b", "b": "a"}[rack]
        self.lease(whole(1, hypervisor_properties=json.dumps(
            ["==", "$hypervisor_hostname", next(
                name for name in (f"{rack}1", f"{rack}2", f"{rack}3")
                if name not in self.held(lease))])), hours=(2, 10))
        self.grow(lease, amount=6)
        self.assertEqual({other}, {name[0] for name in self.held(lease)})

    def test_a_later_lease_gets_another_rule(self):
        lease = self.lease(slots(4, resource_properties=rules(spread_by=_RACK)), hours=(2, 10))
        self.assertEqual((2, 2), self.spread(lease))
        self.grow(lease, resource_properties=rules(pack_by=_RACK))
        self.assertIn(self.spread(lease), [(4, 0), (0, 4)])
        self.grow(lease, resource_properties=rules(spread_by="host"))
        self.assertEqual({1}, set(self.held(lease).values()))

    def test_healing_stays_in_the_rack(self):
        lease = self.lease(whole(2, resource_properties=rules(within=_RACK)), hours=(0, 10))
        self.activate(lease)
        failed = min(self.held(lease))
        [rack] = {name[0] for name in self.held(lease)}
        self.out_of_service(self.host_named(failed))
        self.assertEqual({f"{rack}{number}" for number in (1, 2, 3)} - {failed},
                         set(self.held(lease)))
        # The rack has no other: the lease misses one rather than lie in two.
        second = min(self.held(lease))
        self.out_of_service(self.host_named(second))
        self.assertEqual(1, len(self.held(lease)))
        self.assertTrue(self.found(lease).degraded)
        self.pool.change(
            self.context(), str(self.host_named(second).id), {}, reservable=True)
        self.healing.heal(self.context())
        self.assertEqual(2, len(self.held(lease)))
        self.assertFalse(self.found(lease).degraded)

    def test_hosts_that_leave_the_rack(self):
        """A lease in force keeps them; what it gets besides lies where most of it is."""
        lease = self.lease(slots(5, resource_properties=rules(within=_RACK)), hours=(0, 10))
        self.activate(lease)
        held = self.held(lease)
        [rack] = {name[0] for name in held}
        moved = min(held, key=held.__getitem__)
        self.enter(self.host_named(moved), {"a": "b", "b": "a"}[rack])
        self.assertRaises(DoesNotFit, self.grow, lease, amount=7)
        self.assertEqual(held, self.held(lease))

    def test_several_reservations(self):
        """Each has its own rules, and they do not take each other's room."""
        within = rules(within=_RACK)
        lease = self.lease(slots(6, resource_properties=within),
                           whole(3, resource_properties=within))
        self.assertEqual({"a", "b"}, {name[0] for position in (0, 1)
                                      for name in self.held(lease, position)})
        self.leases.delete(self.context(), lease.id)
        self.assertRaises(DoesNotFit, self.lease, slots(5, resource_properties=within),
                          whole(3, resource_properties=within),
                          slots(2, resource_properties=within))

    def test_a_level_that_is_gone(self):
        for level in ("aggregate:trait=CUSTOM_NO_SUCH", "aggregate:name=nothing",
                      "property:nothing"):
            error = self.assertRaises(InvalidReservation, self.lease, slots(
                1, resource_properties=rules(within=level)))
            self.assertIn(f"names the level {level}, and no host", str(error))

    def test_names_that_properties_cannot_have(self):
        for name in ("within", "pack_by", "spread_by", "aggregate:trait=CUSTOM_RACK"):
            error = self.assertRaises(InvalidLease, self.pool.change, self.context(),
                                      str(self.host_named("a1").id), {name: "x"})
            self.assertIn("no property that can be set", str(error))

    def test_when_it_fits(self):
        """Both racks have room for six in total, and neither for five, until noon."""
        for name in ("a1", "b1"):
            self.lease(whole(1, hypervisor_properties=json.dumps(
                ["==", "$hypervisor_hostname", name])), hours=(1, 12))
        asked = slots(5, resource_properties=rules(within=_RACK))
        error = self.assertRaises(DoesNotFit, self.lease, asked, hours=(2, 4))
        self.assertEqual(self.lease(asked, hours=(12, 14)).start_at, error.fits_at)
