import dataclasses
import datetime
import functools
import random
import threading

import fixtures
import sqlalchemy as sa
from nova.objects import instance as nova_instance
from oslo_serialization import jsonutils

from placement_core import db
from placement_core.cells import tables as cell_tables
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placement_tables
from placement_core.placement.records import AllocationWrite
from placement_core.quota import errors, recheck_order, rechecks, tables
from placement_core.testing import factories
from tests import base, databases, nova_databases, races
from tests.functional.quota import cases

_mappings = cell_tables.instance_mappings
#: Above the ids that a database gives, which go on from test to test.
_PLACED = 10**6


class RechecksTestCase(cases.QuotaTestCase):
    """Re-checks of instances that are there; ten cores are allowed."""

    def recheck(self, project, *uuids, user=None, enforcer=None, names=("cores", "servers")):
        recheck = dataclasses.replace(
            self.parts.rechecks, queries=enforcer or self.enforcer).recheck
        return recheck(
            self.context(), project_id=project, names=names, uuids=uuids, user_id=user).fits

    def made(self, project, cores, number):
        """Return an instance whose mapping has this id."""
        uuid = self.use(project, cores)
        self.place(uuid, number)
        return uuid

    def place(self, uuid, number):
        """Let a mapping come after those that were not placed, in the order of numbers."""
        self.api(sa.update(_mappings).where(_mappings.c.instance_uuid == uuid).values(
            id=_PLACED + number))

    def remove(self, project, *uuids):
        """Undo what a loser has to undo."""
        for uuid in uuids:
            self.claim(uuid, {}, project=project)
            self.api(sa.delete(_mappings).where(_mappings.c.instance_uuid == uuid))
            self.here.execute(sa.text("DELETE FROM instances WHERE uuid = :uuid"), {"uuid": uuid})

    def answers(self):
        with self.database.autocommit.connect() as connection:
            return {row.consumer_uuid: bool(row.stays) for row in connection.execute(
                sa.select(tables.rechecked_claims))}

    def older(self, uuid, minutes):
        self.api(sa.update(_mappings).where(_mappings.c.instance_uuid == uuid).values(
            created_at=utcnow() - datetime.timedelta(minutes=minutes)))


@databases.on_each_database
class TestAnswers(base.DatabaseTestCase):

    def test_who_was_accepted_stays(self):
        """Whether the same re-check is refused before it or after it."""
        refused, accepted_later, accepted_before = (factories.new_uuid() for _ in range(3))
        with db.write(self.ctx) as session:
            recheck_order.record_refusal(session, [refused, accepted_later])
        with db.write(self.ctx) as session:
            recheck_order.record_acceptance(session, [], [accepted_later, accepted_before])
        with db.write(self.ctx) as session:
            recheck_order.record_refusal(session, [accepted_before])
        with self.database.autocommit.connect() as connection:
            self.assertEqual(
                {refused: False, accepted_later: True, accepted_before: True},
                {row.consumer_uuid: bool(row.stays) for row in connection.execute(
                    sa.select(tables.rechecked_claims))})


@cases.in_every_way
class TestRivals(RechecksTestCase):

    def test_the_first_claim_stays_whoever_asks_first(self):
        for first_asks_first in (True, False):
            first, second = self.use(self.left, 6), self.use(self.left, 6)
            asked = [first, second] if first_asks_first else [second, first]
            self.assertEqual({first: True, second: False},
                             {uuid: self.recheck(self.left, uuid) for uuid in asked})
            self.assertEqual({first: True, second: False}, {
                uuid: stays for uuid, stays in self.answers().items()
                if uuid in (first, second)})
            # Asking again changes nothing.
            self.assertEqual({first: True, second: False},
                             {uuid: self.recheck(self.left, uuid) for uuid in asked})
            self.remove(self.left, first, second)

    def test_who_came_first_and_asks_late_goes(self):
        late = self.made(self.left, 6, 1)
        self.remove(self.left, late)
        second = self.made(self.left, 6, 2)
        self.assertTrue(self.recheck(self.left, second))
        late = self.made(self.left, 6, 1)
        self.assertFalse(self.recheck(self.left, late))
        self.assertTrue(self.recheck(self.left, second))

    def test_alone_too_much(self):
        self.assertFalse(self.recheck(self.left, self.use(self.left, 11)))

    def test_who_was_refused_is_in_nobodys_way(self):
        first = self.use(self.left, 6)
        large, small = self.use(self.left, 6), self.use(self.left, 4)
        self.assertEqual([True, False, True], [
            self.recheck(self.left, uuid) for uuid in (first, large, small)])
        # It is still there, and counts again if it stays for long.
        self.assertFalse(self.recheck(self.left, large))
        self.older(large, 11)
        self.assertFalse(self.recheck(self.left, small))

    def test_an_earlier_one_that_cannot_stay_is_in_nobodys_way(self):
        """Whoever asks first: of two of which one fits, that one stays."""
        for small_asks_first in (True, False):
            large, small = self.use(self.left, 11), self.use(self.left, 6)
            asked = [small, large] if small_asks_first else [large, small]
            self.assertEqual({large: False, small: True},
                             {uuid: self.recheck(self.left, uuid) for uuid in asked})
            self.remove(self.left, large, small)

    def test_earlier_ones_are_judged_in_their_order(self):
        first, large, last = self.use(self.left, 5), self.use(self.left, 7), self.use(self.left, 5)
        later = self.use(self.left, 4)
        self.assertFalse(self.recheck(self.left, later))  # the first and the last fill it
        self.assertTrue(self.recheck(self.left, last))
        self.assertFalse(self.recheck(self.left, large))
        self.assertTrue(self.recheck(self.left, first))

    def test_an_earlier_one_that_its_own_limit_will_refuse(self):
        self.limit(self.trunk, 8)
        self.limit(self.right, 3)
        large, small = self.use(self.right, 4), self.use(self.left, 6)
        self.assertTrue(self.recheck(self.left, small))
        self.assertFalse(self.recheck(self.right, large))

    def test_an_earlier_one_that_a_limit_of_its_user_will_refuse(self):
        self.user_limit(self.left, 3)
        janes, joes = self.use(self.left, 5), self.use(self.left, 6, user="joe")
        self.assertTrue(self.recheck(self.left, joes, user="joe"))
        self.assertFalse(self.recheck(self.left, janes, user="jane"))

    def test_several_instances_of_one_request_stay_or_go_together(self):
        first = [self.use(self.left, 3) for _ in range(2)]
        second = [self.use(self.left, 3) for _ in range(2)]
        self.assertFalse(self.recheck(self.left, *second))
        self.assertTrue(self.recheck(self.left, *first))
        self.assertEqual(
            {**dict.fromkeys(first, True), **dict.fromkeys(second, False)}, self.answers())

    def test_requests_whose_instances_came_by_turns(self):
        for later_asks_first in (True, False):
            mine, theirs = [], []
            for _ in range(2):
                mine.append(self.use(self.left, 3))
                theirs.append(self.use(self.left, 3))
            asked = [theirs, mine] if later_asks_first else [mine, theirs]
            # Without nova nobody knows whose belong together: one of both stays.
            self.assertEqual([True, False], [self.recheck(self.left, *uuids) for uuids in asked])
            self.remove(self.left, *mine, *theirs)

    def test_rivals_in_other_projects_of_the_tree(self):
        self.limit(self.trunk, 8)
        first, second = self.use(self.left, 5), self.use(self.right, 5)
        elsewhere = self.use(self.other, 9)
        self.assertFalse(self.recheck(self.right, second))
        self.assertTrue(self.recheck(self.left, first))
        self.assertTrue(self.recheck(self.other, elsewhere))

    def test_rivals_for_the_limit_of_a_user(self):
        self.user_limit(self.left, 5)
        first, second = self.use(self.left, 3), self.use(self.left, 3)
        others = self.use(self.left, 3, user="joe")
        self.assertFalse(self.recheck(self.left, second, user="jane"))
        self.assertTrue(self.recheck(self.left, first, user="jane"))
        self.assertTrue(self.recheck(self.left, others, user="joe"))

    def test_what_is_old_counts_though_nobody_asked_for_it(self):
        mine, later = self.use(self.left, 6), self.use(self.left, 6)
        self.older(later, 11)
        self.assertFalse(self.recheck(self.left, mine))

    def test_instances_of_others_are_not_accepted(self):
        mine, theirs = self.use(self.left, 1), self.use(self.right, 1)
        error = self.assertRaises(
            errors.UnknownConsumers, self.recheck, self.left, mine, theirs, "0" * 32)
        self.assertEqual(sorted([theirs, "0" * 32]), error.uuids)
        self.assertEqual({}, self.answers())

    def test_old_answers_go(self):
        uuids = [self.use(self.left, 1) for _ in range(3)]
        for uuid in uuids:
            self.recheck(self.left, uuid)
        self.api(sa.update(tables.rechecked_claims).where(
            tables.rechecked_claims.c.consumer_uuid == uuids[0]).values(
            answered_at=utcnow() - datetime.timedelta(minutes=21)))
        self.assertEqual(1, recheck_order.prune(self.context()))
        self.assertEqual(dict.fromkeys(uuids[1:], True), self.answers())

    def test_what_was_granted_by_a_claim_counts(self):
        first, second = self.use(self.left, 6), self.use(self.left, 6)
        ctx = self.context()
        ids = self.parts.rechecks.nodes.ensure(ctx, [self.left])
        with db.write(ctx) as session:
            self.parts.rechecks.nodes.lock(session, ids)
            recheck_order.record_acceptance(session, ids.values(), [second])
        self.assertFalse(self.recheck(self.left, first))

    def test_the_rows_of_another_database_are_made_again(self):
        self.recheck(self.left, self.use(self.left, 1))
        self.api(sa.delete(tables.limit_nodes))
        self.assertTrue(self.recheck(self.left, self.use(self.left, 1)))


class NovaRechecksTestCase(RechecksTestCase):
    """The mappings are in nova's own database."""

    def setUp(self):
        self.url = nova_databases.api(self.kind)
        self.options = {("api_database", "connection"): self.url}
        self.nova, tables_ = nova_databases.reflected(self.url, "build_requests")
        self.addCleanup(self.nova.dispose)
        self.build_requests = tables_["build_requests"]
        super().setUp()

    def api(self, statement, values=None):
        with self.nova.begin() as connection:
            return connection.execute(statement, values)


@cases.in_every_way
class TestRequestsOfNova(NovaRechecksTestCase):
    """Nova says which instances are one request."""

    def request(self, *cores):
        """Return the instances of a request that nova is building."""
        reservation = f"r-{factories.new_uuid()[:8]}"
        uuids = [self.use(self.left, each) for each in cores]
        self.api(sa.insert(self.build_requests), [{
            "instance_uuid": uuid, "project_id": self.left,
            "instance": jsonutils.dumps(nova_instance.Instance(
                uuid=uuid, reservation_id=reservation).obj_to_primitive()),
        } for uuid in uuids])
        return uuids

    def remove(self, project, *uuids):
        super().remove(project, *uuids)
        self.api(sa.delete(self.build_requests))

    def test_an_earlier_request_that_cannot_stay_as_a_whole(self):
        """Each of its instances could stay, so that both requests were refused."""
        self.assertTrue(self.recheck(self.left, self.use(self.left, 3)))
        for small_asks_first in (True, False):
            large, small = self.request(3, 3, 3), self.request(2, 2)
            asked = [small, large] if small_asks_first else [large, small]
            self.assertEqual([uuids is small for uuids in asked],
                             [self.recheck(self.left, *uuids) for uuids in asked])
            self.remove(self.left, *large, *small)

    def test_requests_that_came_by_turns(self):
        self.assertTrue(self.recheck(self.left, self.use(self.left, 3)))
        large, small = self.request(3, 3, 3), self.request(2, 2)
        for number, uuid in enumerate((large[0], small[0], large[1], small[1], large[2]), 100):
            self.place(uuid, number)
        self.assertTrue(self.recheck(self.left, *small))
        self.assertFalse(self.recheck(self.left, *large))

    def test_an_earlier_request_that_may_stay(self):
        first, second = self.request(3, 3), self.request(3, 3)
        self.assertFalse(self.recheck(self.left, *second))
        self.assertTrue(self.recheck(self.left, *first))

    def test_texts_that_say_nothing(self):
        for text in ("", "{", "[]", '{"nova_object.data": {"reservation_id": null}}', None):
            first, second = self.request(6), self.request(6)
            self.api(sa.update(self.build_requests).values(instance=text))
            self.assertFalse(self.recheck(self.left, *second))
            self.assertTrue(self.recheck(self.left, *first))
            self.remove(self.left, *first, *second)


@databases.on_each_database
class TestWithoutBuildRequests(NovaRechecksTestCase):
    """Nobody says which instances are one request, so each is one."""

    def require_answers(self):
        first, second = self.use(self.left, 6), self.use(self.left, 6)
        self.assertFalse(self.recheck(self.left, second))
        self.assertTrue(self.recheck(self.left, first))
        self.assertEqual(1, self.log.output.count("cannot be read"), self.log.output)
        self.assertFalse(self.recheck(self.left, self.use(self.left, 6)))
        self.assertEqual(1, self.log.output.count("cannot be read"), "it is said once")

    def test_there_is_no_such_table(self):
        self.api(sa.text("ALTER TABLE build_requests RENAME TO other_requests"))
        self.addCleanup(
            self.api, sa.text("ALTER TABLE other_requests RENAME TO build_requests"))
        self.require_answers()

    def test_it_may_not_be_read(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite has no users")
        url = nova_databases.restrict(self.url, dict.fromkeys(
            ("cell_mappings", "instance_mappings"), "SELECT, INSERT, UPDATE, DELETE"),
            self.addCleanup)
        self.parts = self.built(api_database__connection=url)
        self.enforcer = self.parts.quota
        self.require_answers()


@cases.databases.on_each_database
class TestConsumers(RechecksTestCase):
    """Claims without an instance mapping: there is no nova."""

    names = {"class:VCPU": 10}

    def use(self, project, cores, **options):
        uuid = factories.new_uuid()
        self.claim(uuid, {"VCPU": cores}, project=project)
        return uuid

    def recheck(self, project, *uuids, **options):
        return super().recheck(project, *uuids, names=("class:VCPU",), **options)

    def test_the_first_consumer_stays(self):
        first, second = self.use(self.left, 6), self.use(self.left, 6)
        self.assertFalse(self.recheck(self.left, second))
        self.assertTrue(self.recheck(self.left, first))

    def test_one_that_has_a_mapping_came_first(self):
        consumer = self.use(self.left, 6)
        instance = super().use(self.left, 6)
        self.assertFalse(self.recheck(self.left, consumer))
        self.assertTrue(self.recheck(self.left, instance))

    def test_what_a_claim_granted_counts(self):
        """Whoever was not there yet when it was granted has to go."""
        granted = factories.new_uuid()
        self.parts.claims.claim(self.context(), AllocationWrite(
            granted, {self.host.uuid: {"VCPU": 6}}, self.left, "jane", None, None))
        self.assertEqual({granted: True}, self.answers())
        late = self.use(self.left, 6)
        self.api(sa.update(placement_tables.consumers).where(
            placement_tables.consumers.c.uuid == late).values(id=-1))
        self.assertFalse(self.recheck(self.left, late))

    def test_what_moves_is_no_rival(self):
        mine, instance, migration = self.use(self.left, 6), self.use(self.left, 5), "m" * 36
        self.assertTrue(self.recheck(self.left, mine))
        self.remove_answers()
        self.api(sa.insert(placement_tables.moves), {
            "consumer_uuid": migration, "resource_class_id": placement_tables.CONSUMERS_ID,
            "moved_from": instance, "project_id": 1, "user_id": 1, "used": 0, "revision": 0})
        self.assertFalse(self.recheck(self.left, mine))

    def remove_answers(self):
        self.api(sa.delete(tables.rechecked_claims))


class Slow:
    """Stands before a counting driver: something happens before it counts, or after."""

    def __init__(self, driver, then=lambda: None, first=lambda: None):
        self._driver, self._then, self._first = driver, then, first
        self.units, self.folded = driver.units, driver.folded

    def count(self, ctx, project_ids, **options):
        self._first()
        counted = self._driver.count(ctx, project_ids, **options)
        self._then()
        return counted


@cases.in_every_way
class TestRaces(RechecksTestCase):

    names = {"servers": 10, "cores": 10}

    def test_somebody_is_accepted_while_another_counts(self):
        second = self.made(self.left, 6, 1002)

        def play(paused):
            slow = dataclasses.replace(
                self.enforcer, counting=Slow(self.parts.counting, paused.here))
            return self.recheck(self.left, second, enforcer=slow)

        with races.Paused(play) as paused:
            # It came first, and was not there yet when the second was counted.
            first = self.made(self.left, 6, 1001)
            self.assertTrue(self.recheck(self.left, first))
        self.assertIs(False, paused.outcome)
        self.assertEqual({first: True, second: False}, self.answers())

    def test_somebody_comes_while_another_counts(self):
        """It came later, so it is not what the other has to go for."""
        first = self.made(self.left, 6, 1001)

        def play(paused):
            slow = dataclasses.replace(self.enforcer, counting=Slow(
                self.parts.counting, first=paused.here))
            return self.recheck(self.left, first, enforcer=slow)

        with races.Paused(play) as paused:
            second = self.made(self.left, 6, 1002)
        self.assertIs(True, paused.outcome)
        self.assertFalse(self.recheck(self.left, second))
        self.assertEqual({first: True, second: False}, self.answers())

    def test_a_rival_is_refused_just_before_another_is(self):
        first, second = self.made(self.left, 6, 1001), self.made(self.left, 6, 1002)
        self.limit(self.left, 0, "servers")
        refused, outcomes = rechecks._refuse, []

        def refuse_the_first(*arguments):
            if not outcomes:
                outcomes.append(None)
                outcomes[0] = self.recheck(self.left, first)
            return refused(*arguments)

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.rechecks._refuse", refuse_the_first))
        self.assertTrue(self.recheck(self.left, second, names=("cores",)))
        self.assertEqual([False], outcomes)

    def test_two_at_once(self):
        for _ in range(5):
            first, second = self.use(self.left, 6), self.use(self.left, 6)
            self.assertEqual([True, False], races.run(
                functools.partial(self.recheck, self.left, first),
                functools.partial(self.recheck, self.left, second)))
            self.remove(self.left, first, second)

    def test_created_and_asked_at_once(self):
        """Whoever is seen by whom, one stays."""
        lock = threading.Lock()

        def play(project):
            with lock:  # the deployment is not thread-safe, checks are
                uuid = self.use(project, 6)
            return self.recheck(project, uuid), uuid

        self.limit(self.trunk, 10)
        for _ in range(4):
            outcomes = races.run(functools.partial(play, self.left),
                                 functools.partial(play, self.right))
            self.assertEqual([False, True], sorted(stays for stays, _ in outcomes), outcomes)
            self.remove(self.left, outcomes[0][1])
            self.remove(self.right, outcomes[1][1])

    def test_a_storm_at_every_level(self):
        """24 claims for 8 places in a tree: 8 stay, whichever."""
        self.limit(self.trunk, 8)
        chance = random.Random(5)
        claims = [(project := chance.choice([self.left, self.right, self.trunk]),
                   self.use(project, 1)) for _ in range(24)]
        chance.shuffle(claims)

        def play(mine):
            return [self.recheck(project, uuid) for project, uuid in mine]

        outcomes = races.run(*(functools.partial(play, claims[place::6]) for place in range(6)))
        self.assertEqual(8, sum(stays for each in outcomes for stays in each), outcomes)
        self.assertEqual(8, sum(self.answers().values()))
