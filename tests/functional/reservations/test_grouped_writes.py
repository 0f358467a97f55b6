"""Writes that share a transaction, with all gates of the service: hosts that are reserved, too."""

from __future__ import annotations

import collections
import functools

import fixtures
import sqlalchemy as sa

from placement_core import errors as core_errors, services
from placement_core.db import clock
from placement_core.placement import errors
from placement_core.placement.allocations.gates import Undecided
from placement_core.placement.allocations.grouped_writes import Shortages
from placement_core.quota import claims, errors as quota_errors, tables
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.testing import factories
from tests import databases, write_groups
from tests.functional.quota import twin_worlds
from tests.functional.quota.held import HeldTestCase
from tests.functional.quota.twin_worlds import Change
from tests.functional.reservations import fenced
from tests.http import base as http_base

_SLOT = "SLOT"
_OF_RESERVED_HOST = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 100}
#: The hosts of a world that are reserved: one as a whole, one in slots, which are another
#: provider's.
_WHOLE, _SLOTTED, _SLOTS = 4, 5, 6


@databases.on_each_database
class TestGroups(twin_worlds.TwinsTestCase):
    """Of each world two hosts are reserved, and some consumers are claims with a deadline."""

    rounds = 22

    def setUp(self):
        super().setUp()
        # The worlds are not written at the same time.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.claim_expiry._REMEMBERED_SECONDS", 10**6))
        self.answered = collections.Counter()
        self.given = 0
        self.twin_held_claims = HeldClaimsGate(self.catalog)

    def make_gates(self, guard):
        return [HostAccessGate(), guard, HeldClaimsGate(self.catalog)]

    def make_twin_gates(self):
        access, guard, _ = super().make_twin_gates()
        return [access, guard, self.twin_held_claims]

    def build(self, name):
        world = super().build(name)
        _, left, right = world.projects
        for number in (_WHOLE, _SLOTTED):
            root = factories.provider(
                self.ctx, f"{name}-reserved-{number}", inventory=_OF_RESERVED_HOST)
            below = fenced.child(self.ctx, root)
            fenced.register(self.ctx, root, below)
            leases = fenced.Leases(self.ctx, root, below)
            world.hosts.append(root.uuid)
            world.names[f"name of host {number}"] = root.name
            if number == _WHOLE:
                leases.lease(left, whole=True)
                continue
            world.hosts.append(below.uuid)
            with_class = leases.lease(left, slots=2)
            world.names |= {_SLOT: fenced.class_of(with_class), "reservation": with_class,
                            "other reservation": leases.lease(right, slots=1, named=False)}
        return world

    def draw_amounts(self, chance):
        kind = chance.random()
        if kind < 0.15:  # the smallest one
            return {0: {"VCPU": 5, "MEMORY_MB": 10}}
        if kind < 0.75:
            return super().draw_amounts(chance)
        if kind < 0.85:
            return {_WHOLE: {"VCPU": chance.choice((1, 2, 5))}}
        slotted = {_SLOTTED: {"VCPU": chance.choice((1, 3, 5)), "MEMORY_MB": 10}}
        return slotted | ({_SLOTS: {_SLOT: 1}} if chance.random() < 0.6 else {})

    def change_both(self, chance):
        """Claim with a deadline; let such claims become due, or some of them be confirmed."""
        for _ in range(chance.randint(1, 3)):
            amounts = (self.draw_amounts(chance) if chance.random() < 0.3
                       else {chance.randrange(3): {"VCPU": 5, "MEMORY_MB": 10}})
            change = Change(chance.randrange(len(self.worlds[0].consumers)), amounts,
                            chance.choice((0, 1, 1, 2)), "berta", None)
            one, two = (
                self.describe(world, self.hold(world, change, gates)) for world, gates in zip(
                    self.worlds, (self.kept_gates, self.make_twin_gates()), strict=True))
            self.assertEqual(two, one, change)
        if chance.random() < 0.7:
            self.pass_time()

    def hold(self, world, change, gates):
        """Claim with a deadline; return the refusal, or None."""
        try:
            claims.Claims(gates, gates, AnswerPruner(), self.owners).claim(
                self.ctx, self.realize_change(world, change), hold_seconds=600)
        except core_errors.Error as refusal:
            return refusal
        return None

    def pass_time(self):
        """Let all claims with a deadline be due, unless somebody ended them."""
        held = tables.held_claims
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(held).where(held.c.ended_at.is_(None)).values(
                expires_at=clock.in_seconds(sa.literal(-60))))

    def look(self, world):
        return super().look(world) | {
            "claims": [self.find_state(uuid) for uuid in world.consumers]}

    def find_state(self, consumer):
        try:
            return claims.get(self.ctx, consumer).state
        except quota_errors.ClaimNotFound:
            return None

    def note(self, group, answers):
        for changes, answer in zip(group, answers, strict=True):
            on_reserved = any(
                host >= _WHOLE for change in changes for host in change.amounts)
            self.answered[on_reserved, type(answer)] += 1

    def test_as_one_after_the_other(self):
        self.play_rounds()
        for outcome in ("applied", Undecided, quota_errors.QuotaExceeded,
                        errors.CapacityExceeded):
            self.assertTrue(self.decided[outcome], (outcome, self.decided))
        for answer in (type(None), errors.ProviderReserved):
            self.assertTrue(self.answered[True, answer], self.answered)
        # In both worlds: claims that were due had the room.
        self.assertGreater(self.helped, 1)

    def test_room_is_made_for_all(self):
        """Two find no room at the same moment; the claims that are due end once, for both."""
        world = self.worlds[0]
        for claimed, wanted, refusal in (
                ({0: 6}, {0: 3}, errors.CapacityExceeded),
                ({3: 6}, {2: 3}, quota_errors.QuotaExceeded)):
            self.kept_gates = self.make_gates(self.guard())
            due, *others = (self.give(claimed), self.give(wanted), self.give(wanted))
            self.assertIsNone(self.hold(world, due, self.kept_gates))
            self.pass_time()
            requests = [self.realize(world, [change]) for change in others]
            outcomes = self.write_together(requests, Shortages())
            self.assertEqual([refusal] * 2, [type(outcome) for outcome in outcomes])
            self.assertEqual([None] * 2, self.conclude(
                requests, outcomes, range(2), lambda: self.kept_gates))

    def give(self, amounts):
        """Return that a new consumer of the project ``right`` shall have VCPUs of hosts."""
        self.given += 1
        return Change(self.given - 1, {host: {"VCPU": amount} for host, amount in
                                       amounts.items()}, 2, "berta", None)

    def test_these_are_the_gates_of_the_service(self):
        parts = services.build(http_base.configuration(self.database.settings.connection, {
            ("quota", "guard"): "enforce", ("quota", "count_usage_from_placement"): True,
            ("reservations", "fence"): "enforce"}))
        self.addCleanup(parts.database.dispose)
        self.assertEqual([type(gate) for gate in parts.claims._gates],
                         [type(gate) for gate in self.kept_gates])


@databases.on_each_database
class TestMembers(HeldTestCase):
    """Writes that come at the same moment, of which some are not for a group."""

    def setUp(self):
        super().setUp()
        self.claims = self.cloud.claims_by(HostAccessGate())
        self.groups = self.useFixture(write_groups.Groups())

    def put_together(self, *requests, late=()):
        """Write for new consumers at the same moment; return these, and what became of it.

        :param late: the positions of those that believe that the consumer exists.
        """
        consumers = [factories.new_uuid() for _ in requests]
        return consumers, write_groups.run(self.claims._queue, *(
            functools.partial(self.claims.replace, self.context(), [self.write(
                held, consumer=consumers[position], project=self.cloud.leaf,
                seen=1 if position in late else None)])
            for position, held in enumerate(requests)))

    def reserve(self, **options):
        """Make a host that is reserved; return it, and what a consumer claims that has a slot.

        :param options: those of ``Leases.lease``.
        """
        host = factories.provider(self.ctx, inventory=_OF_RESERVED_HOST)
        below = fenced.child(self.ctx, host)
        fenced.register(self.ctx, host, below)
        leases = fenced.Leases(self.ctx, host, below)
        return host, leases.slot(leases.lease(**options), VCPU=2)

    def test_claims_from_reserved_hosts_are_decided_alone(self):
        host = self.provider(VCPU=8)
        mine, slot = self.reserve(project=self.cloud.leaf)
        other, _ = self.reserve(project=self.cloud.twig)
        consumers, outcomes = self.put_together(
            {host: {"VCPU": 1}}, slot, {host: {"VCPU": 3}}, {other: {"VCPU": 1}})
        self.assertEqual([type(None)] * 3 + [errors.ProviderReserved],
                         [type(outcome) for outcome in outcomes])
        self.assertEqual([set(consumers)], self.groups.consumers)
        for together, transactions in ((consumers[::2], 1), (consumers[:3], 2)):
            self.assertEqual(transactions, write_groups.count_transactions(
                self.database, together))
        self.assertEqual([{"VCPU": 4}, 2, 0], [self.used(host), *(
            self.used(reserved)["VCPU"] for reserved in (mine, other))])

    def test_a_claim_that_is_left_alone_in_its_group(self):
        """The other one drops out before gates decide: nothing is written of the claim yet."""
        mine, slot = self.reserve(project=self.cloud.leaf)
        without_class, _ = self.reserve(project=self.cloud.leaf, named=False)
        host = self.provider(VCPU=8)
        for claim, outcome in (
                (slot, type(None)), ({mine: {"VCPU": 1}}, errors.ProviderReserved),
                ({without_class: {"VCPU": 4}}, type(None)),
                ({without_class: {"VCPU": 1}}, errors.ProviderReserved)):
            consumers, outcomes = self.put_together(claim, {host: {"VCPU": 1}}, late=(1,))
            self.assertEqual([outcome, errors.ConsumerGenerationConflict],
                             [type(each) for each in outcomes], claim)
            self.assertEqual(set(consumers), self.groups.consumers[-1])
        self.assertEqual([2, 4, 0], [self.used(each)["VCPU"] for each in (
            mine, without_class, host)])

    def test_members_make_room(self):
        """Who is refused in a group gets what claims have that are due, as one alone does."""
        self.cloud.limit(self.cloud.leaf, 10)
        full, host = self.provider(VCPU=4), self.provider(VCPU=100)
        for held in ({full: {"VCPU": 4}}, {host: {"VCPU": 6}}):
            due = self.expired(held)
            consumers, outcomes = self.put_together(
                *[{provider: {"VCPU": 1}} for provider in held] * 4)
            self.assertEqual(([None] * 4, "expired"), (outcomes, self.state(due)))
            # They may be grouped again once there is room.
            self.assertIn(set(consumers), self.groups.consumers)
        self.assertEqual([8], self.usage(self.cloud.leaf))
