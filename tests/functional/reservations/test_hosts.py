"""The hosts of the freepool: how they come in, change and leave, and who may not."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.placement import allocations, errors as placement_errors, providers
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.reservations import errors, tables
from placement_core.reservations.hosts import host_properties, host_queries, sizes
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.reservations.hosts.registry import HostRegistry
from placement_core.reservations.leases import history
from placement_core.reservations.records import Host
from placement_core.testing import factories
from tests import databases, races
from tests.functional.reservations.pool_cases import SIZES, PoolTestCase, slots, whole
from tests.round_trips import RoundTrips


class RegisteringTestCase(PoolTestCase):
    def register(self, name: str, capabilities: dict | None = None, **more: str) -> Host:
        return self.pool.register(self.context(), name, capabilities or {}, **more)


@databases.on_each_database
class TestRegistering(RegisteringTestCase):
    def test_sizes_are_what_inventories_leave(self) -> None:
        provider = self.provider("one", VCPU=InventoryValues(
            total=9, reserved=2, allocation_ratio=1.5), MEMORY_MB=1024)
        before = self.revisions()
        host = self.register("one", trust_id="a-trust")
        self.assertEqual((10, 1024, 0), (host.vcpus, host.memory_mb, host.disk_gb))
        self.assertEqual(("one", provider.uuid, True, None, "a-trust", {}), (
            host.name, host.provider_uuid, host.reservable, host.down_reason, host.trust_id,
            host.capabilities))
        self.assertEqual(host, host_queries.get(self.ctx, str(host.id)))
        self.assertEqual(host, host_queries.find(self.ctx, "one"))
        self.assertEqual([("entered", "one")], self.provisioner.told)
        self.assertEqual({"one", "reservation_one"}, self.providers_of_tree(provider.uuid))
        for old, new in zip(before, self.revisions(), strict=True):
            self.assertNotEqual(old, new)

    def test_sizes_of_a_tree_are_summed_up(self) -> None:
        root = self.provider("numa", DISK_GB=50)
        for cell in range(2):
            factories.provider(self.ctx, f"cell-{cell}", parent=root, inventory={
                "VCPU": 4 + cell, "MEMORY_MB": 1000})
        host = self.register(root.uuid.upper())
        self.assertEqual(("numa", 9, 2000, 50),
                         (host.name, host.vcpus, host.memory_mb, host.disk_gb))

    def test_not_with_allocations(self) -> None:
        root = self.provider("used")
        below = factories.provider(self.ctx, "below", parent=root, inventory={"VCPU": 4})
        self.claim(root)
        self.claim(below)
        refusal = self.assertRaises(errors.HostInUse, self.register, "used")
        self.assertIn("2 consumers have", str(refusal))
        self.assertEqual({"used", "below"}, self.providers_of_tree(root.uuid))
        self.assertEqual([], self.provisioner.told)

    def test_a_claim_that_comes_first_refuses_it(self) -> None:
        root = self.provider("raced")
        consumer = factories.new_uuid()

        def claiming(paused: races.Paused) -> None:
            ctx = self.context()
            with db.write(ctx):
                allocations.replace(ctx, [AllocationWrite(
                    consumer, {root.uuid: {"VCPU": 1}}, "project", "user", "INSTANCE", None)])
                paused.here()

        with races.Paused(claiming) as paused:
            outcome = paused.against(self.database, lambda: self.register("raced"))
        self.assertIsInstance(outcome, errors.HostInUse)
        self.assertEqual(0, self.count(tables.computehosts))

    def test_a_claim_that_comes_later_waits_for_it(self) -> None:
        root = self.provider("raced")

        def registering(paused: races.Paused) -> Host:
            effects = self.provisioner
            effects.add_host = lambda ctx, host: paused.here()
            return HostRegistry(effects, self.nodes, self.healing).register(
                self.context(), "raced", {})

        with races.Paused(registering) as paused:
            outcome = paused.against(
                self.database, lambda: self.claim(root, fence=HostAccessGate()))
        self.assertIsInstance(paused.outcome, Host)
        self.assertIsInstance(outcome, placement_errors.ProviderReserved)

    def test_the_fence_is_there_as_long_as_the_host(self) -> None:
        root = self.provider("one")
        self.claim(root, consumer := factories.new_uuid(), fence=HostAccessGate())
        allocations.delete(self.context(), consumer)
        host = self.register("one")
        self.assertRaises(
            placement_errors.ProviderReserved, self.claim, root, fence=HostAccessGate())
        self.pool.remove(self.context(), str(host.id))
        self.claim(root, fence=HostAccessGate())


class TestRefused(RegisteringTestCase):
    def test_names_that_do_not_help(self) -> None:
        root = self.provider("root")
        factories.provider(self.ctx, "nested", parent=root)
        self.provider(root.uuid)
        for name, refusal in (
            ("nobody", errors.UnknownHost), ("", errors.UnknownHost),
            ("\0", errors.UnknownHost), ("n" * 300, errors.UnknownHost),
            (factories.new_uuid(), errors.UnknownHost), ("nested", errors.InvalidLease),
            (root.uuid, errors.AmbiguousHost),
        ):
            self.assertRaises(refusal, self.register, name)
        self.assertEqual(0, self.count(tables.computehosts))

    def test_only_once(self) -> None:
        host = self.host("one")
        for name in ("one", host.provider_uuid):
            self.assertRaises(errors.HostExists, self.register, name)
        providers.update(self.ctx, host.provider_uuid, name="renamed", allow_reparenting=False)
        self.provider("one")
        refusal = self.assertRaises(errors.HostExists, self.register, "one")
        self.assertIn(f"Host {host.id}", str(refusal))

    def test_what_reserves_more_than_it_has_gives_nothing(self) -> None:
        root = self.provider("odd", MEMORY_MB=5)
        with db.write(self.ctx) as session:
            session.execute(sa.text("UPDATE inventories SET capacity = -3"))
        self.assertEqual(0, self.register(root.name).memory_mb)

    def test_not_when_its_child_is_taken(self) -> None:
        self.provider("one")
        self.provider("reservation_one")
        self.assertRaises(placement_errors.DuplicateProvider, self.register, "one")
        self.assertEqual(0, self.count(tables.computehosts))

    def test_long_names_have_a_child_too(self) -> None:
        provider = self.provider("n" * 200)
        self.register("n" * 200)
        self.assertIn(f"reservation_{provider.uuid}", self.providers_of_tree(provider.uuid))


class TestNodes(PoolTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.one = self.cell("one")
        self.conductor(self.one, 10)

    def register(self, name: str) -> Host:
        return self.pool.register(self.context(), name, {"availability_zone": "az1"})

    def test_a_compute_node(self) -> None:
        self.node(self.one, host="h1", hypervisor_hostname="h1.example", cpu_info='{"cores": 4}',
                  memory_mb=1024, ram_allocation_ratio=1.0)
        host = self.register("h1")
        self.assertEqual(
            ("h1.example", "h1", "QEMU", 8002000, '{"cores": 4}', "az1", 256, 512),
            (host.name, host.service_name, host.hypervisor_type, host.hypervisor_version,
             host.cpu_info, host.availability_zone, host.vcpus, host.memory_mb))
        for name in ("h1.example", host.provider_uuid):
            self.assertRaises(errors.HostExists, self.register, name)

    def test_one_of_several_nodes_of_a_host(self) -> None:
        for name in ("bm1", "bm2"):
            self.node(self.one, host="ironic", hypervisor_hostname=name)
        self.assertRaises(errors.AmbiguousHost, self.register, "ironic")
        self.assertEqual("bm2", self.register("bm2").name)

    def test_a_provider_with_the_name_of_another_node(self) -> None:
        self.provider("h1")
        self.node(self.one, host="h1", hypervisor_hostname="h1.example")
        self.assertRaises(errors.AmbiguousHost, self.register, "h1")

    def test_a_node_without_inventories(self) -> None:
        self.conductor(self.one, 5)
        self.node(self.one, hypervisor_hostname="early")
        refusal = self.assertRaises(errors.InvalidLease, self.register, "early")
        self.assertIn("no inventories yet", str(refusal))

    def test_a_cell_that_is_down_may_have_it(self) -> None:
        self.provider("plain")
        self.node(self.one, hypervisor_hostname="here")
        self.nodes.list_(self.ctx)
        broken = self.cell("broken")
        with db.write(self.ctx) as session:
            session.execute(
                sa.text("UPDATE cell_mappings SET database_connection = :url WHERE uuid = :uuid"),
                {"url": "sqlite:////nonexistent/cell.sqlite", "uuid": broken.uuid})
        for name in ("elsewhere", "plain"):
            self.assertRaises(core_errors.Unavailable, self.register, name)
        self.assertEqual("here", self.register("here").name)


class ChangingTestCase(PoolTestCase):
    def change(self, host: Host, capabilities: dict | None = None, **more: object) -> Host:
        return self.pool.change(self.context(), str(host.id), capabilities or {}, **more)


class TestChanges(ChangingTestCase):
    def test_capabilities_that_cannot_be_kept(self) -> None:
        host = self.host("one")
        self.provider("two")
        for given in ({"k" * 65: "v"}, {"": "v"}, {"\0": "v"}, {"vcpus": "9"}, {"id": "9"},
                      {"gpu": True}, {"gpu": ["a"]}, {"gpu": "v" * 1025}, {"gpu": "\0"},
                      {"gpu": "\ud800"}, {"gpu": float("nan")}, {"availability_zone": "z" * 256}):
            self.assertRaises(errors.InvalidLease, self.change, host, given)
            self.assertRaises(
                errors.InvalidLease, self.pool.register, self.context(), "two", given)
        self.assertEqual(0, self.count(tables.resource_properties))
        self.assertEqual("v" * 1024, self.change(
            host, {"k" * 64: "v" * 1024}).capabilities["k" * 64])

    def test_what_cannot_change(self) -> None:
        host = self.host("one")
        self.assertRaises(errors.InvalidLease, self.change, host)
        self.assertRaises(errors.InvalidLease, self.change, host, name="two")
        self.assertEqual(host.name, self.change(host, name="one").name)
        for id_ in ("0", "99999999999999999999", "one", "-1", "1.0", "\u0661", ""):
            for function in (lambda: self.pool.change(self.context(), id_, {"a": "b"}),
                             lambda: self.pool.remove(self.context(), id_),
                             lambda: host_queries.get(self.context(), id_),
                             lambda: host_queries.list_allocations(self.context(), host_id=id_)):
                self.assertRaises(errors.HostNotFound, function)

    def test_out_of_service(self) -> None:
        host = self.host("one")
        down = self.change(host, reservable=False)
        self.assertEqual((False, "taken out of service"), (down.reservable, down.down_reason))
        down = self.change(host, reason="a fan")
        self.assertEqual((False, "a fan"), (down.reservable, down.down_reason))
        self.assertEqual("a fan", self.change(host, {"a": "b"}).down_reason)
        up = self.change(host, reservable=True)
        self.assertEqual((True, None), (up.reservable, up.down_reason))
        for reason in ("none", "monitor: a fan", "r" * 256, "\0"):
            self.assertRaises(errors.InvalidLease, self.change, host, reason=reason)


@databases.on_each_database
class TestChanging(ChangingTestCase):
    def test_capabilities(self) -> None:
        host = self.host("one", {"gpu": "a100", "racks": 4, "load": 0.5, "nothing": None,
                                 "availability_zone": "az1"})
        other = self.host("two", {"gpu": "none"})
        self.assertEqual({"gpu": "a100", "racks": "4", "load": "0.5"}, host.capabilities)
        self.assertEqual("az1", host.availability_zone)
        changed = self.change(host, {"gpu": "h100", "load": None, "fast": "yes",
                                     "availability_zone": None, "service_name": "s"})
        self.assertEqual({"gpu": "h100", "racks": "4", "fast": "yes"}, changed.capabilities)
        self.assertEqual((None, "s"), (changed.availability_zone, changed.service_name))
        self.assertEqual(changed, host_queries.get(self.ctx, str(host.id)))
        self.assertEqual([changed, other], host_queries.page(self.ctx))

    def test_capabilities_that_reservations_ask_for(self) -> None:
        host = self.host("one", {"gpu": "a100", "rack": "1", "disk": "ssd"})
        idle = self.host("two", {"gpu": "a100"})
        lease = self.lease(slots(
            resource_properties='["and", ["=", "$gpu", "a100"], '
                                '["=", "$hypervisor_hostname", "one"]]'), hours=(1, 2))
        self.lease(whole(hypervisor_properties='["=", "$rack", "1"]',
                         resource_properties='["=", "$disk", "ssd"]'), hours=(3, 4))
        self.assertEqual({"one": 1}, self.held(lease))
        for given in ({"gpu": "h100"}, {"gpu": None}, {"rack": "2"}, {"disk": "hdd"}):
            self.assertRaises(errors.CapabilityInUse, self.change, host, given)
        self.assertEqual("x", self.change(
            host, {"gpu": "a100", "new": "x"}).capabilities["new"])
        self.assertEqual("h100", self.change(idle, {"gpu": "h100"}).capabilities["gpu"])
        self.leases.delete(self.context(), lease.id)
        self.assertEqual("h100", self.change(host, {"gpu": "h100"}).capabilities["gpu"])

    def test_sizes_follow_inventories(self) -> None:
        one, two = self.host("one"), self.host("two")
        self.assertEqual([], sizes.refresh(self.context()))
        self.resize("one", VCPU=6)
        self.resize("two", VCPU=12, DISK_GB=7)
        self.assertEqual(6, self.change(one, {"a": "b"}).vcpus)
        self.assertEqual(["two"], sizes.refresh(self.context()))
        found = host_queries.get(self.ctx, str(two.id))
        self.assertEqual((12, SIZES["MEMORY_MB"], 7),
                         (found.vcpus, found.memory_mb, found.disk_gb))


class LeavingTestCase(PoolTestCase):
    def remove(self, host: Host) -> None:
        self.pool.remove(self.context(), str(host.id))


@databases.on_each_database
class TestLeaving(LeavingTestCase):
    def test_it_takes_its_child_along(self) -> None:
        host = self.host("one", {"gpu": "a100"})
        before = self.revisions()
        self.remove(host)
        self.assertEqual({"one"}, self.providers_of_tree(host.provider_uuid))
        self.assertEqual([], host_queries.page(self.ctx))
        self.assertEqual([("entered", "one"), ("left", "one")], self.provisioner.told)
        for old, new in zip(before, self.revisions(), strict=True):
            self.assertNotEqual(old, new)
        again = self.pool.register(self.context(), "one", {})
        self.assertNotEqual(host.id, again.id)
        self.assertEqual({}, again.capabilities)


class TestNotLeaving(LeavingTestCase):
    def test_not_while_leases_hold_it(self) -> None:
        host = self.host("one")
        later = self.lease(slots(), hours=(5, 6))
        self.assertRaises(errors.HostInUse, self.remove, host)
        self.leases.delete(self.context(), later.id)
        self.remove(host)

    def test_not_while_something_is_allocated(self) -> None:
        host = self.host("one")
        self.claim(host.provider_uuid)
        refusal = self.assertRaises(errors.HostInUse, self.remove, host)
        self.assertIn("1 consumer has", str(refusal))
        self.assertEqual([host], host_queries.page(self.ctx))


class TestReading(PoolTestCase):
    def test_pages(self) -> None:
        made = [self.host(f"host-{number}", {"n": number}) for number in range(5)]
        self.assertEqual(made, host_queries.page(self.ctx))
        self.assertEqual(made[:2], host_queries.page(self.ctx, limit=2))
        self.assertEqual(made[2:4], host_queries.page(self.ctx, after=made[1].id, limit=2))
        self.assertEqual([], host_queries.page(self.ctx, after=made[-1].id))
        self.assertRaises(errors.HostNotFound, host_queries.find, self.ctx, "nobody")

    def test_statements_do_not_grow(self) -> None:
        trips = RoundTrips(self.database)
        counts = []
        for number in (1, 4):
            for each in range(number):
                self.host(f"host-{number}-{each}", {"n": each})
            self.lease(slots(2 * number), hours=(1, 2))
            # Each transaction has a BEGIN and a COMMIT, too.
            counts.append((trips.of(host_queries.page, self.ctx) - 2,
                           trips.of(host_queries.list_allocations, self.ctx) - 2,
                           trips.of(host_properties.list_, self.ctx, detail=True)))
        self.assertEqual([(2, 3, 1)] * 2, counts)

    def test_allocations(self) -> None:
        one, two = self.host("one"), self.host("two")
        pair = self.lease(slots(2, affinity=False), hours=(1, 2))
        both = self.lease(slots(2, affinity=True), whole(), hours=(3, 4))
        found, held = host_queries.list_allocations(self.ctx)
        self.assertEqual([one.id, two.id], [each.id for each in found])
        told = {(each.host_name, each.lease_id, each.slots, each.whole, each.ended)
                for each in held}
        on_one = self.held(both)
        [full] = {"one", "two"} - on_one.keys()
        self.assertEqual(
            {("one", pair.id, 1, False, False), ("two", pair.id, 1, False, False),
             (next(iter(on_one)), both.id, 2, False, False), (full, both.id, 1, True, False)},
            told)
        self.assertEqual({pair.window}, {each.window for each in held
                                         if each.lease_id == pair.id})
        self.assertEqual({pair.id}, {
            each.lease_id
            for each in host_queries.list_allocations(self.ctx, lease_id=pair.id)[1]})
        [of_one] = host_queries.list_allocations(
            self.ctx, host_id=str(one.id), reservation_id=pair.reservations[0].id)[1]
        self.assertEqual((one.id, "project"), (of_one.host_id, of_one.project_id))
        for nothing in ({"lease_id": "nobody"}, {"lease_id": "\0"}, {"reservation_id": ""}):
            self.assertEqual((found, []), host_queries.list_allocations(self.ctx, **nothing))

    def test_what_has_ended_is_shown_where_it_is_named(self) -> None:
        host = self.host("one")
        lease = self.lease(slots())
        self.activate(lease)
        self.leases.delete(self.context(), lease.id)
        self.assertEqual([], host_queries.list_allocations(self.ctx)[1])
        [held] = host_queries.list_allocations(self.ctx, lease_id=lease.id)[1]
        self.assertTrue(held.ended)
        self.assertLess(held.window.end_at, lease.end_at)
        self.pool.remove(self.context(), str(host.id))
        found, [held] = host_queries.list_allocations(self.ctx, lease_id=lease.id)
        self.assertEqual(([], host.id, "one"), (found, held.host_id, held.host_name))
        self.assertEqual(["one"], [each.host_name for each in history.page(self.ctx)])
