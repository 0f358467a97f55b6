"""Nova's sequences of requests for what moves, with the guard on and the project at its limit.

Each method of ``Nova`` sends what nova's scheduler, conductor or compute sends, at the
microversion that it uses (1.28 on for allocations with generations).
"""

from __future__ import annotations

import itertools
import uuid

from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex
from placement_core.plugin_api.counting import CONSUMERS
from tests import databases
from tests.http import base

SMALL = {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}
LARGE = {"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 10}


class Nova:
    """What nova sends about one project's instances."""

    def __init__(self, test, project="project", user="user"):
        self.test = test
        self.owner = {"project_id": project, "user_id": user}

    def put(self, consumer, held, generation, status=204):
        return self.test.call("PUT", f"/allocations/{consumer}", {
            "allocations": {host: {"resources": what} for host, what in held.items()},
            **self.owner, "consumer_generation": generation}, status)

    def shown(self, consumer):
        return self.test.call("GET", f"/allocations/{consumer}", None, 200).json

    def held(self, consumer):
        return {host: each["resources"]
                for host, each in self.shown(consumer)["allocations"].items()}

    def generation(self, consumer):
        return self.shown(consumer).get("consumer_generation")

    def boot(self, host, flavor, status=204):
        instance = str(uuid.uuid4())
        self.put(instance, {host: flavor}, None, status)
        return instance

    def move(self, source, target, status=204):
        """``move_allocations``: one POST that empties one into the other."""
        shown = self.shown(source)
        held = {host: {"resources": each["resources"]}
                for host, each in shown["allocations"].items()}
        self.test.call("POST", "/allocations", {
            source: {"allocations": {}, **self.owner,
                     "consumer_generation": shown["consumer_generation"]},
            target: {"allocations": held, **self.owner,
                     "consumer_generation": self.generation(target)},
        }, status)

    def delete(self, consumer):
        self.test.call("DELETE", f"/allocations/{consumer}", None, 204)

    def start_move(self, instance, host, flavor, status=204):
        """The conductor gives what is held to a migration, the scheduler claims anew."""
        migration = str(uuid.uuid4())
        self.move(instance, migration)
        self.put(instance, {host: flavor}, None, status)
        return migration

    def evacuate(self, instance, host, flavor, status=204):
        """The scheduler adds the new host to what is held."""
        held = {**self.held(instance), host: flavor}
        self.put(instance, held, self.generation(instance), status)


@databases.on_each_database
class TestNovaMoves(base.HttpTestCase):
    options = {("quota", "guard"): "enforce", ("limits", "enforcement_model"): "tree",
               ("quota", "count_usage_from_placement"): True}

    def setUp(self):
        super().setUp()
        self.index = UsageIndex(self.parts[0].database)
        self.first, self.second = self.host(), self.host()
        service = self.call(
            "POST", "/v3/services", {"service": {"type": "compute"}}, 201).json["service"]["id"]
        self.call("POST", "/v3/registered_limits", {"registered_limits": [
            {"service_id": service, "resource_name": name, "default_limit": limit}
            for name, limit in (("class:VCPU", 4), ("class:MEMORY_MB", 1024),
                                ("servers", 2))]}, 201)
        self.nova = Nova(self)
        self.instance = self.nova.boot(self.first, SMALL)
        self.other = self.nova.boot(self.first, SMALL)
        self.assert_full()

    def call(self, method, path, body, status):
        version = None if path.startswith("/v3") else "1.36"
        response = self.ask(
            method, path, body, version=version, headers={"X-Roles": "admin,service"})
        self.assertEqual(status, response.status_int, response.body)
        return response

    _names = itertools.count()

    def host(self):
        host = str(uuid.uuid4())
        self.call("POST", "/resource_providers", {"uuid": host, "name": host}, 200)
        self.call("PUT", f"/resource_providers/{host}/inventories", {
            "resource_provider_generation": 0,
            "inventories": {name: {"total": 100_000} for name in LARGE}}, 200)
        return host

    def counted(self):
        """Return (VCPU, servers) as quota counts them."""
        usages = self.index.usages(self.parts[0].context())
        project = ProjectSet(["project"])
        return usages.total(project, "VCPU"), usages.total(project, CONSUMERS)

    def assert_full(self):
        """The project is at its limit: another instance is refused."""
        self.assertEqual((4, 2), self.counted())
        self.nova.boot(self.first, {"VCPU": 1}, status=403)

    def assert_room_of_one(self):
        extra = self.nova.boot(self.first, SMALL)
        self.assert_full()
        self.nova.delete(extra)

    def test_cold_migration_confirmed(self):
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.assert_full()
        self.nova.delete(migration)
        self.assert_full()
        self.assertEqual({self.second: SMALL}, self.nova.held(self.instance))

    def test_cold_migration_reverted(self):
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.nova.move(migration, self.instance)
        self.assert_full()
        self.assertEqual({self.first: SMALL}, self.nova.held(self.instance))

    def test_between_both_requests_nobody_takes_the_room(self):
        migration = str(uuid.uuid4())
        self.nova.move(self.instance, migration)
        self.assert_full()
        self.nova.put(self.instance, {self.second: SMALL}, None)
        self.assert_full()

    def test_no_host_is_found(self):
        """The conductor moves everything back."""
        migration = str(uuid.uuid4())
        self.nova.move(self.instance, migration)
        self.nova.move(migration, self.instance)
        self.assert_full()
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.assert_full()
        self.nova.delete(migration)
        self.assert_full()

    def test_resize_down_and_confirmed(self):
        self.nova.delete(self.other)
        large = self.nova.start_move(self.instance, self.second, LARGE)
        self.assertEqual((4, 1), self.counted())
        self.nova.delete(large)
        migration = self.nova.start_move(self.instance, self.first, SMALL)
        # A revert must find room: the larger of both counts.
        self.assertEqual((4, 1), self.counted())
        self.nova.boot(self.first, {"VCPU": 1}, status=403)
        self.nova.delete(migration)
        self.assertEqual((2, 1), self.counted())
        self.assert_room_of_one()

    def test_resize_down_and_reverted(self):
        self.nova.delete(self.other)
        self.nova.delete(self.nova.start_move(self.instance, self.second, LARGE))
        migration = self.nova.start_move(self.instance, self.first, SMALL)
        self.nova.move(migration, self.instance)
        self.assertEqual((4, 1), self.counted())
        self.assertEqual({self.second: LARGE}, self.nova.held(self.instance))

    def test_resize_up_is_growth(self):
        migration = self.nova.start_move(self.instance, self.second, LARGE, status=403)
        self.assert_full()
        self.nova.move(migration, self.instance)
        self.assert_full()
        self.nova.delete(self.other)
        migration = self.nova.start_move(self.instance, self.second, LARGE)
        self.assertEqual((4, 1), self.counted())
        self.nova.move(migration, self.instance)
        self.assert_room_of_one()

    def test_resize_on_the_same_host(self):
        migration = self.nova.start_move(self.instance, self.first, SMALL)
        self.assert_full()
        self.nova.delete(migration)
        self.assert_full()

    def test_two_moves_at_once(self):
        migrations = [self.nova.start_move(each, self.second, SMALL)
                      for each in (self.instance, self.other)]
        self.assert_full()
        self.nova.delete(migrations[0])
        self.nova.move(migrations[1], self.other)
        self.assert_full()

    def test_live_migration(self):
        """As a cold one, but the instance is never asked; the source is deleted at the end."""
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.nova.delete(migration)
        back = self.nova.start_move(self.instance, self.first, SMALL)
        self.assert_full()
        self.nova.move(back, self.instance)
        self.assert_full()
        self.assertEqual({self.second: SMALL}, self.nova.held(self.instance))

    def test_deleted_while_it_is_resized(self):
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.nova.delete(self.instance)
        self.assert_full()
        self.nova.delete(migration)
        self.assertEqual((2, 1), self.counted())
        self.assert_room_of_one()

    def test_shelve_and_unshelve(self):
        self.nova.delete(self.instance)
        self.assert_room_of_one()
        self.nova.put(self.instance, {self.second: SMALL}, None)
        self.assert_full()

    def test_evacuation(self):
        self.nova.evacuate(self.instance, self.second, SMALL)
        self.assert_full()
        # The source host comes back, and takes its share away.
        self.nova.put(self.instance, {self.second: SMALL}, self.nova.generation(self.instance))
        self.assert_full()
        self.assertEqual({self.second: SMALL}, self.nova.held(self.instance))

    def test_evacuated_and_deleted(self):
        self.nova.evacuate(self.instance, self.second, SMALL)
        self.nova.delete(self.instance)
        self.assertEqual((2, 1), self.counted())
        self.assert_room_of_one()

    def test_evacuated_twice(self):
        third = self.host()
        self.nova.evacuate(self.instance, self.second, SMALL)
        self.nova.put(self.instance, {self.second: SMALL}, self.nova.generation(self.instance))
        self.nova.evacuate(self.instance, third, SMALL)
        self.assert_full()

    def test_what_is_no_evacuation(self):
        """More of the same elsewhere is growth, where no machine moves."""
        self.nova.put(self.instance, {self.first: SMALL, self.second: {"VCPU": 2}},
                      self.nova.generation(self.instance), status=403)

    def test_moved_and_evacuated(self):
        """Nothing is refused, and in the end everything counts once."""
        self.nova.evacuate(self.instance, self.second, SMALL)
        third = self.host()
        migration = self.nova.start_move(self.instance, third, SMALL)
        self.nova.delete(migration)
        self.assert_full()

    def test_a_reshape_of_what_moves(self):
        migration = self.nova.start_move(self.instance, self.second, SMALL)
        self.call("POST", "/reshaper", {
            "inventories": {self.first: {
                "resource_provider_generation": self.call(
                    "GET", f"/resource_providers/{self.first}", None, 200).json["generation"],
                "inventories": {name: {"total": 50_000} for name in LARGE}}},
            "allocations": {
                each: {"allocations": {host: {"resources": what}
                                       for host, what in self.nova.held(each).items()},
                       **self.nova.owner,
                       "consumer_generation": self.nova.generation(each)}
                for each in (self.instance, migration)}}, 204)
        self.assert_full()
        self.nova.delete(migration)
        self.assert_full()
