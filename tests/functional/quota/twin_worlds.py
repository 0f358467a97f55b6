"""Groups of writes, and the same writes one after the other, in two halves of a database."""

from __future__ import annotations

import collections
import dataclasses
import os
import random
import re
from collections.abc import Sequence

import fixtures
import sqlalchemy as sa

from placement_core import errors as core_errors
from placement_core.catalog import domains, projects
from placement_core.placement import allocations, tables
from placement_core.placement.allocations import Gate, grouped_writes, unit_of_work, write
from placement_core.placement.allocations.gates import Undecided, WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.placement.records import ANY_GENERATION, AllocationWrite
from placement_core.placement.usage import usages
from placement_core.quota.guard import QuotaGuard
from placement_core.testing import factories
from tests.functional.quota import project_trees

EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
_HOSTS, _CONSUMERS = 4, 12
_USERS = ("anna", "berta")


@dataclasses.dataclass
class World:
    """Half of the database: a tree of projects, hosts and consumers, that has a twin.

    :ivar names: {what both worlds have, each with a name of its own: that name}.
    """

    domain: str
    projects: list[str]
    hosts: list[str]
    consumers: list[str]
    names: dict[str, str] = dataclasses.field(default_factory=dict)

    def describe(self, text):
        """Return a text with the names of this world replaced by those of any world."""
        names = {uuid: f"{kind} {number}" for kind in ("projects", "hosts", "consumers")
                 for number, uuid in enumerate(getattr(self, kind))}
        names |= {self.domain: "domain"} | {name: word for word, name in self.names.items()}
        return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text)

    def put_names(self, amounts):
        """Return {resource class: amount}, with the names of this world."""
        return {self.names.get(name, name): amount for name, amount in amounts.items()}

    def take_out_names(self, amounts):
        """Return {resource class: amount}, with the names of any world."""
        words = {name: word for word, name in self.names.items()}
        return {words.get(name, name): amount for name, amount in amounts.items()}


@dataclasses.dataclass
class Change:
    """What a consumer shall have, by numbers; ``seen``: None, ANY, "right" or "wrong"."""

    consumer: int
    amounts: dict[int, dict[str, int]]
    project: int
    user: str
    seen: object


class TwinsTestCase(project_trees.TreeTestCase):
    """Two worlds that are the same: one is written in groups, its twin one by one.

    :cvar rounds: how many groups a test plays.
    """

    rounds = 40

    def setUp(self):
        super().setUp()
        self.register(VCPU=12, MEMORY_MB=-1, servers=5)
        self.worlds = [self.build(name) for name in ("one", "two")]
        #: What came of the writes of groups, and how many gates made room for.
        self.decided = collections.Counter()
        self.helped = 0
        #: Of the process that writes into the first world, which relies on what it knows; what
        #: is written into the second one is decided by its usage.
        self.kept_gates = self.make_gates(self.guard())

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
        return World(domain, [trunk, left, right], hosts,
                     # In one order, because the first of several conflicts is told.
                     sorted(factories.new_uuid() for _ in range(_CONSUMERS)))

    def make_gates(self, guard: QuotaGuard) -> Sequence[Gate]:
        """Return the gates of all writes, of which one is the guard."""
        return [guard]

    def make_twin_gates(self) -> Sequence[Gate]:
        """Return the gates of a write into the second world."""
        return self.make_gates(self.guard())

    def play_rounds(self):
        for number in range(300 if EXPLORES else self.rounds):
            seed = number if not EXPLORES else random.randrange(2**32)
            try:
                self.play(random.Random(seed))
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise

    def play(self, chance):
        # As where the projects are too many to be read in the transaction.
        few = chance.random() < 0.2
        with fixtures.MonkeyPatch(
                "placement_core.quota.locked_usage.MOST_PROJECTS", 0 if few else 100):
            self.change_both(chance)
            group = self.draw_group(chance)
            one, two = self.worlds
            requests = [self.realize(one, changes) for changes in group]
            shortages = Shortages()
            shortages.note(short=chance.random() < 0.3)
            outcomes = self.write_together(requests, shortages)
            order = sorted(range(len(group)), key=lambda position: (
                isinstance(outcomes[position], Undecided),
                any(change.amounts for change in group[position])))
            refusals = [None if outcome == "applied" else outcome for outcome in outcomes]
            for position in order:
                outcome = outcomes[position]
                self.decided[outcome if outcome == "applied" else type(outcome)] += 1
                if isinstance(outcome, Undecided):
                    refusals[position] = self.attempt(requests[position], self.kept_gates)
            answers = self.conclude(requests, refusals, order, lambda: self.kept_gates)
            twins = [self.realize(two, changes) for changes in group]
            expected_refusals = [None] * len(group)
            for position in order:
                expected_refusals[position] = self.attempt(
                    twins[position], self.make_twin_gates())
            expected = self.conclude(twins, expected_refusals, order, self.make_twin_gates)
            for of_two, of_one in ((expected_refusals, refusals), (expected, answers)):
                self.assertEqual([self.describe(two, each) for each in of_two],
                                 [self.describe(one, each) for each in of_one],
                                 (group, outcomes))
            self.assertEqual(self.look(two), self.look(one), (group, outcomes))
            self.assert_audit_clean()
            self.note(group, answers)

    def change_both(self, chance):
        """Change both worlds before a group is written."""

    def note(self, group, answers):
        """Note what was played.

        :param answers: None, or the refusal in the end.
        """

    def draw_group(self, chance):
        left = list(range(_CONSUMERS))
        chance.shuffle(left)
        group = []
        for _ in range(chance.randint(2, 7)):
            kind = chance.choices(("put", "post", "delete", "move"), (6, 2, 2, 2))[0]
            if kind == "move":
                source, target = left.pop(), left.pop()
                amounts, project, user = self.find_held(source)
                group.append([Change(source, {}, project, user, ANY_GENERATION),
                              Change(target, amounts, project, user, ANY_GENERATION)])
            elif kind == "delete":
                group.append([Change(left.pop(), {}, 0, "", "delete")])
            else:
                group.append([self.draw_change(chance, left.pop())
                              for _ in range(1 if kind == "put" else 2) if left])
            if len(left) < 3:
                break
        return [changes for changes in group if changes]

    def draw_change(self, chance, consumer):
        amounts = self.draw_amounts(chance)
        if chance.random() < 0.05:
            amounts[-1] = {"VCPU": 1}
        if chance.random() < 0.05:
            amounts = {}
        return Change(consumer, amounts, chance.choice((0, 1, 1, 2)), chance.choice(_USERS),
                      chance.choice((None, None, ANY_GENERATION, "right", "right", "wrong")))

    def draw_amounts(self, chance):
        hosts = chance.sample(range(_HOSTS), chance.choice((1, 1, 2)))
        return {host: {"VCPU": chance.choice((1, 1, 2, 3, 9)), "MEMORY_MB": 10}
                for host in hosts}

    def find_held(self, consumer):
        """Return what a consumer has, by the numbers of hosts, its project and its user."""
        one = self.worlds[0]
        found = allocations.list_for_consumer(self.ctx, one.consumers[consumer])
        if found is None:
            return {}, 0, "anna"
        return ({one.hosts.index(uuid): one.take_out_names(share.resources)
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
            uuid, {world.hosts[host] if host >= 0 else "0" * 8: world.put_names(amounts)
                   for host, amounts in change.amounts.items()},
            world.projects[change.project], change.user, "INSTANCE", seen)

    def write_together(self, requests, shortages):
        gates = self.kept_gates
        for request in requests:
            self.owners.ensure(self.ctx, request.writes)
        return grouped_writes.apply_together(
            self.ctx, [
                GroupedWrite(
                    request, [gate.prepare(self.ctx, request) for gate in gates], self.ctx)
                for request in requests], gates, self.owners, shortages)

    def attempt(self, request, gates):
        """Attempt a write alone; return its refusal, or None."""
        attempt = write._delete if request.deletes else write._replace
        try:
            attempt(self.ctx, request, gates, self.owners)
        except core_errors.Error as refusal:
            return refusal
        return None

    def conclude(self, requests, refusals, order, make_gates):
        """Return what writes are answered after their first attempts: gates may make room.

        :param refusals: those of the first attempts, or None.
        """
        answers = list(refusals)
        for position in order:
            if refusals[position] is not None and not requests[position].deletes:
                answers[position] = self.try_again(
                    requests[position], refusals[position], make_gates())
        return answers

    def try_again(self, request, refusal, gates):
        first = [refusal]

        def attempt(*arguments):
            if first:
                raise first.pop()
            return write._replace(*arguments)

        try:
            unit_of_work.carry_out(attempt, self.ctx, request, gates, self.owners)
        except core_errors.Error as error:
            return error
        self.helped += 1
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
            classes = dict(connection.execute(sa.select(
                tables.resource_classes.c.id, tables.resource_classes.c.name)).all())
        return {
            "consumers": [(generations.get(uuid), self.describe_held(world, uuid))
                          for uuid in world.consumers],
            "hosts": [(self.generation_of(uuid), world.take_out_names(
                usages.for_provider(self.ctx, uuid).usages)) for uuid in world.hosts],
            "projects": [[
                (usage.consumer_count, world.take_out_names(usage.resources))
                for usage in usages.for_project(self.ctx, project, user_id=user)]
                for project in world.projects for user in (None, *_USERS)],
            "pairs": sorted(
                (world.consumers.index(second), world.consumers.index(first),
                 *world.take_out_names({classes.get(class_id, ""): used}).items())
                for second, first, class_id, used in pairs if second in world.consumers),
        }

    def describe_held(self, world, uuid):
        return {world.hosts.index(host): world.take_out_names(amounts)
                for host, amounts in self.held(uuid).items()}

    def generation_of(self, uuid):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(tables.resource_providers.c.generation).where(
                tables.resource_providers.c.uuid == uuid))
