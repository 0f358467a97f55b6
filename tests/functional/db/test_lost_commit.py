import dataclasses
import threading
import time

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db import failures, transactions
from placement_core.db.database import Database
from placement_core.placement import allocations, tables
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import Undecided, WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.testing import factories
from tests import databases
from tests.functional.db import proxy
from tests.functional.placement import claims

_PORTS = {"postgresql": 5432, "mysql": 3306}
#: As it is sent: not the end of ``BEGIN ISOLATION LEVEL READ COMMITTED``.
_COMMIT = {"postgresql": b"COMMIT\0", "mysql": b"\x03COMMIT"}

#: The proxy has to see what is sent; newer servers offer TLS where nobody set it up.
_NOT_ENCRYPTED = {"postgresql": "sslmode=disable", "mysql": "ssl_disabled=true"}


def put_proxy_before(database: Database, journal: Journal) -> tuple[proxy.Proxy, Database]:
    """Return a proxy before a server, and a ``Database`` that reaches it through the proxy."""
    url, kind = sa.make_url(database.settings.connection), database.dialect
    loser = proxy.Proxy((url.host, url.port or _PORTS[kind]), _COMMIT[kind])
    url = url.set(host=loser.address[0], port=loser.address[1])
    return loser, Database(
        dataclasses.replace(
            database.settings, connection=url.render_as_string(hide_password=False),
            connection_parameters=_NOT_ENCRYPTED[kind]),
        journal)


class LostTestCase(claims.ClaimsTestCase):
    """Our application behind a proxy; ``self.ctx`` still reaches the server directly."""

    def setUp(self):
        super().setUp()
        if self.kind == "sqlite":
            self.skipTest("an SQLite database has no connection that could be lost")
        self.proxy, self.proxied = put_proxy_before(self.database, Journal())
        self.addCleanup(self.proxy.close)
        self.addCleanup(self.proxied.dispose)
        self.far = Context(self.proxied)
        self.host = self.provider(VCPU=8)
        # The first use of a pool, and get-or-create of the owners.
        self.claim({self.host: {"VCPU": 1}}, ctx=self.far)
        allocations.delete(self.far, self.consumer)
        self.before = self.generation(self.host)

    def wait_until_it_answers(self):
        """Wait until the outage is over, as clients do who are told to come back."""
        deadline = time.monotonic() + 20
        while self.proxied.availability.is_away and time.monotonic() < deadline:
            time.sleep(0.05)

    def assert_once(self, amount=2, generation=1):
        """Check that the claim was made exactly once."""
        self.assertTrue(self.proxy.happened.wait(20))
        self.assertEqual({self.host.uuid: {"VCPU": amount}}, self.held())
        self.assertEqual({"VCPU": amount}, self.used(self.host))
        self.assertEqual(generation, self.generation(self.consumer))
        self.assertEqual(1, self.count(tables.allocations))


@databases.on_each_database
class TestLostCommits(LostTestCase):

    def test_the_answer_is_lost(self):
        self.proxy.arm("cut_answer")
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        self.assert_once()
        self.assertEqual(self.before + 1, self.generation(self.host))

    def test_the_commit_is_lost(self):
        self.proxy.arm("cut_request")
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        self.assert_once()
        self.assertEqual(self.before + 1, self.generation(self.host))

    def test_the_commit_is_late(self):
        self.proxy.arm("delay", seconds=1.0)
        started = time.monotonic()
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        self.assertGreater(time.monotonic() - started, 0.9)
        self.assert_once()
        self.assertEqual(self.before + 1, self.generation(self.host))

    def test_the_answer_to_a_replacement_is_lost(self):
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        for loss in ("cut_answer", "cut_request"):
            self.proxy.arm(loss)
            seen = self.generation(self.consumer)
            self.claim({self.host: {"VCPU": 3}}, ctx=self.far, seen=seen)
            self.assert_once(amount=3, generation=seen + 1)

    def test_the_answer_to_a_delete_is_lost(self):
        for loss in ("cut_answer", "cut_request"):
            self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
            self.proxy.arm(loss)
            allocations.delete(self.far, self.consumer)
            self.assertEqual({}, self.held())

    def test_the_database_stays_away(self):
        self.addCleanup(setattr, transactions, "_LOOK_UP_PAUSES_SECONDS",
                        transactions._LOOK_UP_PAUSES_SECONDS)
        transactions._LOOK_UP_PAUSES_SECONDS = (0.05, 0.05)
        for loss, made in (("cut_answer", True), ("cut_request", False)):
            self.proxy.arm(loss, then_refuse=True)
            error = self.assertRaises(
                errors.Unavailable, self.claim, {self.host: {"VCPU": 2}}, ctx=self.far)
            self.assertIn("whether it was made is not known yet", str(error))
            self.proxy.refusing = False
            self.assertEqual(made, bool(self.held()))
            self.wait_until_it_answers()
            self.claim({}, ctx=self.far)

    def test_it_comes_back_while_we_look(self):
        self.proxy.arm("cut_answer", then_refuse=True)

        def come_back():
            self.proxy.happened.wait(10)
            time.sleep(0.3)
            self.proxy.refusing = False

        threading.Thread(target=come_back, daemon=True).start()
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        self.assert_once()


@databases.on_each_database
class TestUnansweredCommits(LostTestCase):
    """The server answers others, and no COMMIT: one that waits for the nodes of a cluster."""

    def setUp(self):
        super().setUp()
        self.set_bound(2)

    def set_bound(self, seconds):
        self.proxied.settings = dataclasses.replace(
            self.proxied.settings, statement_timeout_seconds=seconds)

    def claim_with(self, action, **options):
        """Claim; return after how many seconds the answer came."""
        self.proxy.arm(action, **options)
        started = time.monotonic()
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
        return time.monotonic() - started

    def test_it_was_made(self):
        self.assertLess(self.claim_with("hold_answer"), 15)
        self.assert_once()
        self.assertEqual(self.before + 1, self.generation(self.host))
        self.assertFalse(self.proxied.availability.is_away)

    def test_it_was_not_made(self):
        self.assertLess(self.claim_with("hold_request"), 15)
        self.assert_once()
        self.assertEqual(self.before + 1, self.generation(self.host))

    def test_nobody_knows(self):
        """The transaction goes on holding its locks."""
        self.proxied.retry_seconds = 0
        started = time.monotonic()
        error = self.assertRaises(
            errors.Unavailable, self.claim_with, "hold_request", seconds=30)
        self.assertIn("whether it was made is not known yet", str(error))
        self.assertLess(time.monotonic() - started, 20)

    def test_a_look_up_is_not_answered(self):
        with db.write(self.far) as session:
            session.record_change("trait", 1)
        self.proxy.arm("hold_answer")
        started = time.monotonic()
        self.assertRaises(failures.ConnectionLost, self.proxied.journal.was_committed,
                          self.proxied, session, 1.0)
        self.assertLess(time.monotonic() - started, 15)

    def test_there_is_no_bound(self):
        self.set_bound(0)
        claims_made = []
        self.proxy.arm("hold_answer")
        writer = threading.Thread(target=lambda: claims_made.append(
            self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)))
        writer.start()
        self.assertTrue(self.proxy.happened.wait(20))
        writer.join(4)
        self.assertEqual([], claims_made)
        self.proxy.drop_all()
        writer.join(20)
        self.assertEqual(1, len(claims_made))


@databases.on_each_database
class TestLostCommitsOfGroups(LostTestCase):
    """The COMMIT of two writes that share a transaction."""

    def write_together(self):
        self.others = factories.new_uuid()
        requests = [WriteRequest([self.write({self.host: {"VCPU": 2}}, consumer=uuid, seen=None)])
                    for uuid in (self.consumer, self.others)]
        return grouped_writes.apply_together(
            self.far, [GroupedWrite(request, [], self.far) for request in requests], [],
            self.owners, Shortages())

    def assert_made(self, outcomes, made):
        self.assertTrue(self.proxy.happened.wait(20))
        self.assertEqual(["applied"] * 2, outcomes)
        for uuid in (self.consumer, self.others):
            self.assertEqual({self.host.uuid: {"VCPU": 2}} if made else {}, self.held(uuid))

    def test_the_answer_is_lost(self):
        self.proxy.arm("cut_answer")
        self.assert_made(self.write_together(), made=True)

    def test_the_commit_is_late(self):
        self.proxy.arm("delay", seconds=1.0)
        self.assert_made(self.write_together(), made=True)

    def test_the_commit_is_lost(self):
        self.proxy.arm("cut_request")
        self.assertEqual([Undecided()] * 2, self.write_together())
        self.assertEqual([{}, {}], [self.held(), self.held(self.others)])

    def test_the_connection_is_lost_before(self):
        self.proxied.dispose()
        self.proxy.arm("cut_answer", word=b"UPDATE inventories")
        self.assertEqual([Undecided()] * 2, self.write_together())

    def test_the_database_stays_away(self):
        self.addCleanup(setattr, transactions, "_LOOK_UP_PAUSES_SECONDS",
                        transactions._LOOK_UP_PAUSES_SECONDS)
        transactions._LOOK_UP_PAUSES_SECONDS = (0.05, 0.05)
        for loss, made in (("cut_answer", True), ("cut_request", False)):
            self.proxy.arm(loss, then_refuse=True)
            for outcome in self.write_together():
                self.assertIsInstance(outcome, errors.Unavailable)
                self.assertIn("whether it was made is not known yet", str(outcome))
            self.proxy.refusing = False
            self.assertEqual([made] * 2, [bool(self.held()), bool(self.held(self.others))])
            self.wait_until_it_answers()
            self.claim({}, ctx=self.far)
            self.claim({}, ctx=self.far, consumer=self.others)


@databases.on_each_database
class TestLostConnections(LostTestCase):

    def test_in_the_middle_of_a_transaction(self):
        for word in (b"INSERT INTO consumers", b"INSERT INTO allocations",
                     b"UPDATE resource_providers", b"UPDATE inventories",
                     b"INSERT INTO usage_counters", b"UPDATE change_heads"):
            for loss in ("cut_request", "cut_answer"):
                # PostgreSQL's connections send a statement's text a few times only.
                self.proxied.dispose()
                self.proxy.arm(loss, word=word)
                self.claim({self.host: {"VCPU": 2}}, ctx=self.far, seen=None)
                self.assert_once()
                allocations.delete(self.ctx, self.consumer)

    def test_the_database_is_away(self):
        self.proxied.dispose()
        self.proxy.refusing = True
        self.assertRaises(errors.Unavailable, self.claim, {self.host: {"VCPU": 2}}, ctx=self.far)
        self.assertRaises(errors.Unavailable, allocations.list_for_consumer, self.far,
                          self.consumer)
        self.proxy.refusing = False
        self.wait_until_it_answers()
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far)

    def test_a_read(self):
        self.claim({self.host: {"VCPU": 2}}, ctx=self.far)
        self.proxied.dispose()
        for loss in ("cut_request", "cut_answer"):
            self.proxy.arm(loss, word=b"SELECT resource_providers.uuid")
            found = allocations.list_for_consumer(self.far, self.consumer)
            self.assertTrue(self.proxy.happened.is_set())
            self.assertEqual({self.host.uuid}, set(found.providers))
