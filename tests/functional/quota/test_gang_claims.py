"""Claims of gangs against other claims, on each database."""

from __future__ import annotations

import threading
from unittest import mock

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import allocations, tables
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.gangs import levels, search
from placement_core.placement.gangs.errors import NoRoomForGang
from placement_core.placement.gangs.requests import GangRequest
from placement_core.placement.index import CapacityIndex
from placement_core.quota import claims, errors, gang_claims
from placement_core.quota.gang_claims import GangClaims, GangOwner
from placement_core.testing import factories
from tests import databases, races
from tests.functional.quota.held import HeldTestCase
from tests.round_trips import RoundTrips


class GangCase(HeldTestCase):

    def setUp(self) -> None:
        super().setUp()
        # Each round trip costs a few hundred of them; losing 30 races in a row
        # would still be a defect.
        self.database.retries = 30
        self.index = CapacityIndex(self.database)
        self.gangs = GangClaims(self.cloud.claims, self.index, None, exclude_reserved=False)

    def gang(self, members=4, *, vcpus=1, ctx=None, gangs=None, seconds=None, **rules):
        request = GangRequest(
            CandidatesRequest((RequestGroup("", {"VCPU": vcpus}),)), members,
            rules.pop("min_members", members),
            **{name: levels.parse(rule) if isinstance(rule, str) else rule
               for name, rule in rules.items()})
        owner = GangOwner(self.cloud.leaf, "bob", "INSTANCE",
                          [factories.new_uuid() for _ in range(members)])
        (gangs or self.gangs).claim(ctx or self.ctx, request, owner, hold_seconds=seconds)
        return owner.consumer_uuids

    def stored(self) -> set[str]:
        """Return the consumers that hold something; the inventories agree with it."""
        with self.database.autocommit.connect() as session:
            held = session.execute(sa.select(
                tables.allocations.c.consumer_id, tables.allocations.c.used)).all()
            used = session.scalar(sa.select(sa.func.sum(tables.inventories.c.used)))
        self.assertEqual(sum(row.used for row in held), used)
        return {row.consumer_id for row in held}


@databases.on_each_database
class TestRaces(GangCase):

    def test_exactly_as_many_gangs_as_fit(self) -> None:
        """Eight clients want three gangs of four each; there is room for twelve."""
        for _ in range(12):
            self.provider(VCPU=4)
        results: list[list[str]] = []
        refusals: list[Exception] = []

        def play(number):
            ctx = self.context()
            gangs = GangClaims(
                self.cloud.claims, self.index if number % 2 else CapacityIndex(self.database),
                None, exclude_reserved=False)
            for _ in range(3):
                try:
                    results.append(self.gang(
                        ctx=ctx, gangs=gangs,
                        **({}, {"pack_by": "host"}, {"spread_by": "host"})[number % 3]))
                except NoRoomForGang as refusal:
                    refusals.append(refusal)

        outcomes = races.run(*(lambda number=number: play(number) for number in range(8)))
        self.assertEqual([None] * 8, outcomes)
        self.assertEqual((12, 12), (len(results), len(refusals)))
        self.assertEqual({uuid for gang in results for uuid in gang}, self.stored())
        self.assertEqual(48, len(self.stored()))

    def test_limits_hold(self) -> None:
        """Gangs and single claims exceed no limit together, and fill it."""
        host = self.provider(VCPU=100)
        self.cloud.limit(self.cloud.branch, 20)

        def claim_gangs():
            ctx = self.context()
            for _ in range(3):
                try:
                    self.gang(4, ctx=ctx, min_members=1)
                except errors.QuotaExceeded:
                    return

        def claim_singles():
            ctx = self.context()
            for _ in range(9):
                try:
                    self.hold({host: {"VCPU": 1}}, ctx=ctx, seconds=None)
                except errors.QuotaExceeded:
                    return

        outcomes = races.run(claim_gangs, claim_gangs, claim_singles, claim_singles)
        self.assertEqual([None] * 4, outcomes)
        self.assertEqual([20], self.usage(self.cloud.leaf))
        self.assertEqual(20, len(self.stored()))

    def test_room_that_is_taken_meanwhile(self) -> None:
        """Others take what was found, in the first two rounds; under locks, nobody can."""
        for _ in range(5):
            self.provider(VCPU=2)
        rounds = []
        find = search.find_members

        def find_and_lose(snapshot, request, **options):
            members = find(snapshot, request, **options)
            rounds.append(len(members))
            if len(rounds) < 3:
                taken = next(iter(members[0].allocations))
                other = threading.Thread(target=lambda: self.hold(
                    {taken: {"VCPU": 2}}, ctx=self.context(), seconds=None))
                other.start()
                other.join()
            return members

        with mock.patch.object(gang_claims.search, "find_members", find_and_lose):
            claimed = self.gang(3, vcpus=2)
        self.assertEqual(4, len(rounds))  # the last under locks
        self.assertEqual(5, len(self.stored()))
        self.assertTrue(self.stored().issuperset(claimed))
        self.assertRaises(NoRoomForGang, self.gang, 1)

    def test_nobody_claims_while_it_is_locked(self) -> None:
        host = self.provider(VCPU=4)
        self.provider(VCPU=4)
        find = search.find_members
        waiting: list[threading.Thread | None] = []

        def find_while_another_waits(snapshot, request, **options):
            if len(waiting) == 3:
                other = threading.Thread(target=lambda: self.hold(
                    {host: {"VCPU": 1}}, ctx=self.context(), seconds=None))
                other.start()
                other.join(0.5)
                self.assertTrue(other.is_alive())
                waiting.append(other)
            else:
                waiting.append(None)
                if len(waiting) < 3:
                    raise self.ran_out()
            return find(snapshot, request, **options)

        with mock.patch.object(gang_claims.search, "find_members", find_while_another_waits):
            self.gang(6, max_per_host=3)
        waiting[-1].join()
        self.assertEqual(7, len(self.stored()))

    def ran_out(self):
        return gang_claims.placement_errors.AllocationForUnknownProvider(factories.new_uuid())


@databases.on_each_database
class TestHeld(GangCase):

    def test_one_deadline(self) -> None:
        self.provider(VCPU=8)
        claimed = self.gang(8, seconds=600)
        self.assertEqual((8, {"held"}), (self.rows(), {self.state(each) for each in claimed}))
        for consumer in claimed:
            self.pass_time(consumer)
        self.assertRaises(errors.ClaimExpired, claims.confirm_all, self.ctx, claimed)
        # It needs the room: what is due ends.
        self.assertEqual(8, len(self.gang(8)))
        self.assertEqual({"expired"}, {self.state(each) for each in claimed})

    def test_a_member_that_holds_nothing_any_more(self) -> None:
        """Nobody else's confirmation counts while one of them cannot be confirmed."""
        self.provider(VCPU=8)
        for empty in (lambda gone: allocations.delete(self.ctx, gone),
                      lambda gone: self.put({}, consumer=gone)):
            stays, gone = claimed = self.gang(2, seconds=600)
            empty(gone)
            for uuids in (claimed, [gone, stays], [gone]):
                refusal = self.assertRaises(
                    errors.ClaimNotFound, claims.confirm_all, self.ctx, uuids)
                self.assertIn(gone, str(refusal))
            self.assertEqual("held", self.state(stays))
            claims.confirm_all(self.ctx, [stays])
            self.assertEqual("confirmed", self.state(stays))
            self.assertRaises(errors.ClaimNotFound, claims.confirm_all, self.ctx, claimed)

    def test_a_member_that_was_taken_over(self) -> None:
        host = self.provider(VCPU=8)
        claimed = self.gang(2, seconds=600)
        self.put({host: {"VCPU": 3}}, consumer=claimed[0])
        claims.confirm_all(self.ctx, claimed)
        self.assertEqual((0, {"confirmed"}), (self.rows(), {self.state(each) for each in claimed}))

    def test_a_member_whose_deletion_has_not_committed(self) -> None:
        """It is confirmed, and then deleted: neither waits for the other."""
        self.provider(VCPU=8)
        stays, gone = claimed = self.gang(2, seconds=600)

        def delete(paused: races.Paused) -> None:
            ctx = self.context()
            with db.write(ctx):
                allocations.delete(ctx, gone)
                paused.here()

        if self.kind == "sqlite":
            self.skipTest("one writer at a time: nobody confirms beside a deletion")
        with races.Paused(delete):
            claims.confirm_all(self.context(), claimed)
        self.assertEqual(("confirmed", None), (self.state(stays), self.state(gone)))

    def test_round_trips(self) -> None:
        """Sixteen members among many hosts take as many as one; BEGIN and COMMIT count."""
        most = {"postgresql": 14, "mysql": 14, "sqlite": 38}[self.database.dialect]
        for _ in range(40):
            self.provider(VCPU=4)
        self.gang(16, spread_by="host")  # everything is known by now
        round_trips = RoundTrips(self.database)
        counts = [round_trips.of(self.gang, members, spread_by="host") for members in (1, 16)]
        self.assertLessEqual(max(counts), most, counts)
