"""Writes that share a transaction, against the same writes one after the other."""

from __future__ import annotations

import collections
import dataclasses
import os
import random
import re

import fixtures
import sqlalchemy as sa

from placement_core import errors as core_errors
from placement_core.catalog import domains, projects
from placement_core.placement import allocations, errors, tables
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import Undecided, WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.placement.records import ANY_GENERATION, AllocationWrite
from placement_core.placement.usage import usages
from placement_core.quota import errors as quota_errors
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import project_trees

_EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
_ROUNDS, _HOSTS, _CONSUMERS = 300 if _EXPLORES else 40, 4, 12
_USERS = ("anna", "berta")


@dataclasses.dataclass
class _World:
    """Half of the database: a tree of projects, hosts and consumers, that has a twin."""

    domain: str
    projects: list[str]
    hosts: list[str]
    consumers: list[str]

    def describe(self, text):
        """Return a text with the names of this world replaced by those of any world."""
        names = {uuid: f"{kind} {number}" for kind, uuids in dataclasses.asdict(self).items()
                 if kind != "domain" for number, uuid in enumerate(uuids)}
        names[self.domain] = "domain"
        return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text)


@dataclasses.dataclass
class _Change:
    """What a consumer shall have, by numbers; ``seen``: None, ANY, "right" or "wrong"."""

    consumer: int
    amounts: dict[int, dict[str, int]]
    project: int
    user: str
    seen: object


@databases.on_each_database
class TestGroups(project_trees.TreeTestCase):

    def setUp(self):
        super().setUp()
        self.register(VCPU=12, MEMORY_MB=-1, servers=5)
        self.worlds = [self.build(name) for name in ("one", "two")]
        self.decided = collections.Counter()
        #: Of the process that writes into the first world, which relies on what it knows; what
        #: is written into the second one is decided by its usage.
        self.kept_guard = self.guard()

    def build(self, name):
        domain = domains.create(self.ctx, name=name).id
        trunk = projects.create(self.ctx, name="trunk", domain_id=domain, parent_id=None).id
        left, right = (projects.create(
            self.ctx, name=each, domain_id=domain, parent_id=trunk).id
            for each in ("left", "right"))
        self.limit(trunk, VCPU=24)
        self.limit(left, VCPU=18, servers=9)
        self.limit_user(left, "anna", VCPU=5, servers=3)
        hosts = [factories.provider(self.ctx, inventory={"VCPU": 6 + 3 * number,
                                                         "MEMORY_MB": 1000}).uuid
                 for number in range(_HOSTS)]
        return _World(domain, [trunk, left, right], hosts,
                      # In one order, because the first of several conflicts is told.
                      sorted(factories.new_uuid() for _ in range(_CONSUMERS)))

    def test_as_one_after_the_other(self):
        for number in range(_ROUNDS):
            seed = number if not _EXPLORES else random.randrange(2**32)
            try:
                self.play(random.Random(seed))
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
        for outcome in ("applied", quota_errors.QuotaExceeded, errors.CapacityExceeded,
                        errors.ConsumerGenerationConflict, errors.NoAllocations,
                        errors.AllocationForUnknownProvider, Undecided):
            self.assertTrue(self.decided[outcome], (outcome, self.decided))

    def test_room_that_is_not_given_back(self):
        """What a write would give back helps none behind it if it is refused later."""
        world = self.worlds[0]
        trunk, _, right = world.projects
        for host, amount in ((1, 9), (2, 12)):
            self.assertIsNone(self.write_alone(
                self.realize_one(world, host, {host: amount}, right if host == 1 else trunk),
                self.guard()))
        room = self.realize_one(world, 3, {3: 3}, right)
        self.assertIsNone(self.write_alone(room, self.guard()))
        # The limit of the trunk, 24, is reached. One gives a consumer to somebody else, who may
        # have it; but the host has no room for so much.
        elsewhere = self.worlds[1].projects[0]
        gives_back = self.realize_one(world, 1, {1: 10}, elsewhere)
        takes = self.realize_one(world, 4, {3: 5}, trunk)
        outcomes = self.write_together([gives_back, takes], Shortages())
        self.assertIsInstance(outcomes[0], errors.CapacityExceeded)
        self.assertEqual(Undecided(), outcomes[1])
        self.assertIsInstance(
            self.write_alone(takes, self.guard()), quota_errors.QuotaExceeded)

    def test_who_gives_back_makes_no_room_for_too_much(self):
        """Two that change places would fit together, but neither does without the other."""
        world = self.worlds[0]
        for consumer, host in ((1, 1), (2, 2)):
            self.assertIsNone(self.write_alone(self.realize_one(
                world, consumer, {host: 6}, world.projects[0]), self.guard()))
        # The first host has room for three more, the second one for six.
        for likely in (False, True):
            shortages = Shortages()
            shortages.note(short=likely)
            self.assertEqual([errors.CapacityExceeded] * 2, [type(outcome) for outcome in (
                self.write_together([
                    self.realize_one(world, 1, {2: 9}, world.projects[0]),
                    self.realize_one(world, 2, {1: 9}, world.projects[0])], shortages))])

    def realize_one(self, world, consumer, amounts, project):
        return WriteRequest([AllocationWrite(
            world.consumers[consumer],
            {world.hosts[host]: {"VCPU": amount} for host, amount in amounts.items()},
            project, "berta", "INSTANCE", ANY_GENERATION)])

    def test_limits_that_changed_since_one_was_prepared(self):
        """The others are not decided by limits of another moment either."""
        for most in (0, 100):
            with fixtures.MonkeyPatch("placement_core.quota.locked_usage.MOST_PROJECTS", most):
                world, gate = self.worlds[0], self.guard()
                requests = [WriteRequest([AllocationWrite(
                    factories.new_uuid(), {world.hosts[3]: {"VCPU": 1}}, world.projects[number],
                    "berta", "INSTANCE", None)]) for number in (1, 2)]
                for request in requests:
                    self.owners.ensure(self.ctx, request.writes)
                stale = GroupedWrite(
                    requests[0], [gate.prepare(self.ctx, requests[0])], self.ctx)
                self.register(**{f"other{most}": 1})
                self.decisions.read_usages(self.ctx)  # an index is as old as its last reader
                current = GroupedWrite(
                    requests[1], [gate.prepare(self.ctx, requests[1])], self.ctx)
                self.assertEqual([Undecided()] * 2, grouped_writes.apply_together(
                    self.ctx, [current, stale], [gate], self.owners, Shortages()), most)

    def play(self, chance):
        # As where the projects are too many to be read in the transaction.
        few = chance.random() < 0.2
        with fixtures.MonkeyPatch(
                "placement_core.quota.locked_usage.MOST_PROJECTS", 0 if few else 100):
            group = self.draw_group(chance)
            one, two = self.worlds
            requests = [self.realize(one, changes) for changes in group]
            shortages = Shortages()
            shortages.note(short=chance.random() < 0.3)
            outcomes = self.write_together(requests, shortages)
            order = sorted(range(len(group)), key=lambda position: (
                isinstance(outcomes[position], Undecided),
                any(change.amounts for change in group[position])))
            answers = [None if outcome == "applied" else outcome for outcome in outcomes]
            for position in order:
                outcome = outcomes[position]
                self.decided[outcome if outcome == "applied" else type(outcome)] += 1
                if isinstance(outcome, Undecided):
                    answers[position] = self.write_alone(requests[position], self.kept_guard)
            expected = [None] * len(group)
            twins = [self.realize(two, changes) for changes in group]
            for position in order:
                expected[position] = self.write_alone(twins[position], self.guard())
            self.assertEqual([self.describe(two, each) for each in expected],
                             [self.describe(one, each) for each in answers], (group, outcomes))
            self.assertEqual(self.look(two), self.look(one), (group, outcomes))
            self.assert_audit_clean()

    def draw_group(self, chance):
        left = list(range(_CONSUMERS))
        chance.shuffle(left)
        group = []
        for _ in range(chance.randint(2, 7)):
            kind = chance.choices(("put", "post", "delete", "move"), (6, 2, 2, 2))[0]
            if kind == "move":
                source, target = left.pop(), left.pop()
                amounts, project, user = self.find_held(source)
                group.append([_Change(source, {}, project, user, ANY_GENERATION),
                              _Change(target, amounts, project, user, ANY_GENERATION)])
            elif kind == "delete":
                group.append([_Change(left.pop(), {}, 0, "", "delete")])
            else:
                group.append([self.draw_change(chance, left.pop())
                              for _ in range(1 if kind == "put" else 2) if left])
            if len(left) < 3:
                break
        return [changes for changes in group if changes]

    def draw_change(self, chance, consumer):
        hosts = chance.sample(range(_HOSTS), chance.choice((1, 1, 2)))
        amounts = {host: {"VCPU": chance.choice((1, 1, 2, 3, 9)), "MEMORY_MB": 10}
                   for host in hosts}
        if chance.random() < 0.05:
            amounts[-1] = {"VCPU": 1}
        if chance.random() < 0.05:
            amounts = {}
        return _Change(consumer, amounts, chance.choice((0, 1, 1, 2)), chance.choice(_USERS),
                       chance.choice((None, None, ANY_GENERATION, "right", "right", "wrong")))

    def find_held(self, consumer):
        """Return what a consumer has, by the numbers of hosts, its project and its user."""
        one = self.worlds[0]
        found = allocations.list_for_consumer(self.ctx, one.consumers[consumer])
        if found is None:
            return {}, 0, "anna"
        return ({one.hosts.index(uuid): dict(share.resources)
                 for uuid, share in found.providers.items()},
                one.projects.index(found.project_id), found.user_id)

    def realize(self, world, changes):
        if changes[0].seen == "delete":
            return WriteRequest([AllocationWrite(
                world.consumers[changes[0].consumer], {}, "", "")], deletes=True)
        return WriteRequest([self.realize_change(world, change) for change in changes])

    def realize_change(self, world, change):
        uuid = world.consumers[change.consumer]
        seen = change.seen
        if seen in ("right", "wrong"):
            seen = self.generation(uuid)
            if change.seen == "wrong":
                seen = (seen or 0) + 7
        return AllocationWrite(
            uuid, {world.hosts[host] if host >= 0 else "0" * 8: amounts
                   for host, amounts in change.amounts.items()},
            world.projects[change.project], change.user, "INSTANCE", seen)

    def write_together(self, requests, shortages):
        gates = [self.kept_guard]
        for request in requests:
            self.owners.ensure(self.ctx, request.writes)
        return grouped_writes.apply_together(
            self.ctx, [
                GroupedWrite(
                    request, [gate.prepare(self.ctx, request) for gate in gates], self.ctx)
                for request in requests], gates, self.owners, shortages)

    def write_alone(self, request, guard):
        try:
            if request.deletes:
                allocations.delete(
                    self.ctx, request.writes[0].consumer_uuid, [guard], self.owners)
            else:
                allocations.replace(self.ctx, request.writes, [guard], self.owners)
        except core_errors.Error as refusal:
            return refusal
        return None

    def describe(self, world, refusal):
        return None if refusal is None else (type(refusal), world.describe(str(refusal)))

    def look(self, world):
        """Return all that the writes change, without names of the world."""
        with self.database.autocommit.connect() as connection:
            generations = dict(connection.execute(sa.select(
                tables.consumers.c.uuid, tables.consumers.c.generation)).all())
            pairs = connection.execute(sa.select(
                tables.moves.c.consumer_uuid, tables.moves.c.moved_from,
                tables.moves.c.resource_class_id, tables.moves.c.used)).all()
        return {
            "consumers": [(generations.get(uuid), self.describe_held(world, uuid))
                          for uuid in world.consumers],
            "hosts": [(self.generation_of(uuid), dict(
                usages.for_provider(self.ctx, uuid).usages)) for uuid in world.hosts],
            "projects": [[
                (usage.consumer_count, dict(usage.resources))
                for usage in usages.for_project(self.ctx, project, user_id=user)]
                for project in world.projects for user in (None, *_USERS)],
            "pairs": sorted(
                (world.consumers.index(pair[0]), world.consumers.index(pair[1]), *pair[2:])
                for pair in pairs if pair[0] in world.consumers),
        }

    def describe_held(self, world, uuid):
        return {world.hosts.index(host): amounts for host, amounts in self.held(uuid).items()}

    def generation_of(self, uuid):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(tables.resource_providers.c.generation).where(
                tables.resource_providers.c.uuid == uuid))
