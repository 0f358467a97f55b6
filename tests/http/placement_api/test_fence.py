"""Hosts of the freepool, as those see them who claim and look for room."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from placement_core.http.placement_api import microversions as mv
from placement_core.placement import providers
from tests import databases
from tests.functional.reservations import fenced
from tests.http.placement_api.cases import PlacementTestCase
from tests.http.placement_api.test_nova_moves import Nova

SLOT = {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 10}
OF_HOST = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 100}
WORDS = "is kept for reservations"
CODE = "reservations.fenced"


class FenceTestCase(PlacementTestCase):
    """A site with two hosts of the freepool, and one that is not."""

    #: Of one reservation on both, which has two slots on each.
    leases: tuple[fenced.Leases, fenced.Leases]

    def setUp(self) -> None:
        super().setUp()
        ctx = self.parts[0].context()
        made = []
        for name in ("reserved-1", "reserved-2"):
            root = providers.get(ctx, self.provider(name, **OF_HOST))
            below = fenced.child(ctx, root)
            fenced.register(ctx, root, below)
            made.append(fenced.Leases(ctx, root, below))
        self.leases = made[0], made[1]
        self.free = self.provider("free", **OF_HOST)

    def reserve(self) -> str:
        """Have a reservation; return the name of its class."""
        reservation = self.leases[0].lease("project", slots=2)
        self.leases[1].hold(reservation, slots=2)
        #: What takes a slot of it on the one host, and on the other.
        self.slots = [each.slot(reservation, **SLOT) for each in self.leases]
        return fenced.class_of(reservation)

    def roots(self, query: str) -> set[str]:
        """Return the providers of all candidates."""
        found = self.call("GET", f"/allocation_candidates?{query}", status=200).json
        return {each for candidate in found["allocation_requests"]
                for each in candidate["allocations"]}


@databases.on_each_database
class TestFence(FenceTestCase):
    def test_refused(self) -> None:
        host = self.leases[0].root.uuid
        path = f"/allocations/{uuid.uuid4()}"
        body = self.claim({host: {"VCPU": 1}})
        self.refuse(409, f"Host reserved-1 {WORDS}: project project", "PUT", path, body, code=CODE)
        self.refuse(409, WORDS, "POST", "/allocations", {str(uuid.uuid4()): body}, code=CODE)
        self.refuse(409, WORDS, "POST", "/reshaper", {
            "inventories": {self.free: {
                "resource_provider_generation": 1,
                "inventories": {name: {"total": total} for name, total in OF_HOST.items()}}},
            "allocations": {str(uuid.uuid4()): body}}, code=CODE)
        old = self.call("PUT", path, {"allocations": [
            {"resource_provider": {"uuid": host}, "resources": {"VCPU": 1}}]}, at=(1, 0))
        self.assertEqual(409, old.status_int)
        self.assertIn(WORDS, old.json["errors"][0]["detail"])
        self.assertNotIn("code", old.json["errors"][0])
        response = self.ask("POST", "/capacity/v1/claims", {"claim": {
            "project_id": "project", "user_id": "user", "consumer_type": "INSTANCE",
            "allocations": {host: {"resources": {"VCPU": 1}}}}}, version=None)
        self.assert_refused(409, WORDS, response, CODE)
        self.call("PUT", path, self.claim({self.free: {"VCPU": 1}}), status=204)

    def test_candidates(self) -> None:
        first, second = (each.root.uuid for each in self.leases)
        wanted = "resources=VCPU:4,MEMORY_MB:4096"
        self.assertEqual({self.free}, self.roots(wanted))
        self.assertEqual({first}, self.roots(f"{wanted}&in_tree={first}"))
        named = self.reserve()
        self.assertEqual({each for slot in self.slots for each in slot},
                         self.roots(f"{wanted}&resources_S={named}:1&group_policy=none"))
        self.assertEqual({self.free}, self.roots(wanted))
        aggregate = str(uuid.uuid4())
        self.call("PUT", f"/resource_providers/{second}/aggregates", {
            "aggregates": [aggregate], "resource_provider_generation": providers.get(
                self.leases[1].ctx, second).generation}, status=200)
        self.assertEqual({second}, self.roots(f"{wanted}&member_of={aggregate}"))

    def test_candidates_explained(self) -> None:
        response = self.ask(
            "GET", "/capacity/v1/explain/allocation_candidates?resources=VCPU:4", version=None)
        self.assertEqual(1, response.json["candidates"])
        self.assertEqual(
            {"filter": "fence", "value": "2 kept for reservations", "left": 1},
            response.json["trees"]["filters"][-1])


class TestNova(FenceTestCase):
    """What nova sends about instances that have a slot each."""

    def setUp(self) -> None:
        super().setUp()
        self.reserve()
        self.nova = Nova(self)
        self.instance = self.boot(0)

    def call(self, method, path, body=None, status=None, **options):  # type: ignore[override]
        options.setdefault("at", mv.MAPPINGS)
        return super().call(method, path, body, status=status, **options)

    def boot(self, place: int, status: int = 204) -> str:
        instance = str(uuid.uuid4())
        self.nova.put(instance, self.slots[place], None, status)
        return instance

    def move(self, place: int, flavor: Mapping[str, int] = SLOT, status: int = 204) -> str:
        migration = str(uuid.uuid4())
        self.nova.move(self.instance, migration)
        root = self.leases[place].root.uuid
        self.nova.put(
            self.instance, {**self.slots[place], root: flavor}, None, status)
        return migration

    def assert_holds(self, place: int) -> None:
        self.assertEqual(self.slots[place], self.nova.held(self.instance))

    def test_boot_and_delete(self) -> None:
        self.boot(0)
        self.boot(0, status=409)
        self.nova.delete(self.instance)
        self.instance = self.boot(0)
        self.assert_holds(0)

    def test_migration_confirmed(self) -> None:
        self.nova.delete(self.move(1))
        self.assert_holds(1)

    def test_migration_reverted(self) -> None:
        migration = self.move(1)
        self.nova.move(migration, self.instance)
        self.assert_holds(0)

    def test_resize_beyond_the_slot(self) -> None:
        migration = self.move(1, {**SLOT, "VCPU": 8}, status=409)
        self.nova.move(migration, self.instance)
        self.assert_holds(0)

    def test_resize_on_the_same_host(self) -> None:
        migration = self.move(0, {**SLOT, "VCPU": 2})
        self.boot(0, status=409)
        self.nova.delete(migration)
        self.boot(0)

    def test_evacuation(self) -> None:
        held = {**self.nova.held(self.instance), **self.slots[1]}
        self.nova.put(self.instance, held, self.nova.generation(self.instance))
        self.nova.put(self.instance, self.slots[1], self.nova.generation(self.instance))
        self.assert_holds(1)

    def test_leaving_the_freepool(self) -> None:
        migration = str(uuid.uuid4())
        self.nova.move(self.instance, migration)
        self.nova.put(self.instance, {self.free: SLOT}, None)
        self.nova.delete(migration)
        self.assertEqual({self.free: SLOT}, self.nova.held(self.instance))


class TestOff(FenceTestCase):
    options = {("reservations", "fence"): "off"}

    def test_leases_and_allocations_do_not_know_each_other(self) -> None:
        host = self.leases[0].root.uuid
        self.call("PUT", f"/allocations/{uuid.uuid4()}", self.claim({host: {"VCPU": 1}}),
                  status=204)
        self.assertEqual({self.free, *(each.root.uuid for each in self.leases)},
                         self.roots("resources=VCPU:1"))
