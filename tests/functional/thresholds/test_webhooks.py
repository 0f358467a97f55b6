"""Reports come to webhooks: signed, in order, at least once."""

from __future__ import annotations

import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import conf, db, errors
from placement_core.thresholds import tables, webhooks
from placement_core.thresholds.webhooks import Sender, Target
from tests import base, databases
from tests.functional.thresholds import receivers
from tests.http.base import configuration

_rows = tables.webhook_deliveries


@databases.on_each_database
class TestDeliveries(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.logger = self.useFixture(fixtures.FakeLogger())
        self.receiver = self.useFixture(receivers.Receiver())
        self.targets = [Target(self.receiver.url, receivers.SECRET.encode())]

    def put(self, *ids, targets=None):
        for event_id in ids:
            with db.write(self.ctx) as session:
                webhooks.put(session, targets or self.targets, event_id, '{"a": "ä"}')

    def deliver(self, targets=None):
        """Send what is due, as a manager does; return how many reports were taken."""
        return sum(self.drain(Sender(target)) for target in targets or self.targets)

    def drain(self, sender):
        count = 0
        while sender.deliver(self.context()):
            count += 1
        return count

    def discard_late(self, targets=()):
        return webhooks.discard_late(self.context(), targets=targets)

    def hurry(self):
        """Let what waits be due."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text(
                "UPDATE webhook_deliveries SET next_at = '2020-01-01 00:00:00.000000'"))

    def expire(self):
        """Let the time be over for which managers own what they have dequeued."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text(
                "UPDATE webhook_deliveries SET deadline_at = '2020-01-01 00:00:00.000000'"))

    def give_up(self, event_id):
        """Let the days be over for which a report is sent again."""
        with self.database.autocommit.connect() as connection:
            connection.execute(
                sa.text("UPDATE webhook_deliveries SET give_up_at = "
                        "'2020-01-01 00:00:00.000000' WHERE event_id = :event_id"),
                {"event_id": event_id})

    def count(self):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(_rows))

    def taken(self):
        return [event_id for event_id, _ in self.receiver.events]

    def test_in_order(self):
        self.put("one", "two", "three")
        self.assertEqual(3, self.deliver())
        self.assertEqual(["one", "two", "three"], self.taken())
        self.assertEqual({"a": "ä"}, self.receiver.events[0][1])
        self.assertEqual(0, self.count())

    def test_a_request_that_has_ended_does_not_delay_the_next(self):
        """Its thread may end a moment after its answer: it waits for a processor."""
        class Slow(threading.Thread):
            def run(self):
                super().run()
                time.sleep(0.1)

        self.patch(threading, "Thread", Slow)
        self.put("one", "two", "three")
        self.assertEqual(3, self.deliver())

    def test_counts(self):
        """What no receiver has taken yet, and what of it was sent already."""
        self.assertEqual(webhooks.UndeliveredReports(0, 0), webhooks.count_undelivered(self.ctx))
        self.put("one", "two")
        self.receiver.status = 500
        self.deliver()
        self.assertEqual(webhooks.UndeliveredReports(2, 1), webhooks.count_undelivered(self.ctx))

    def test_a_receiver_that_refuses_gets_it_again(self):
        self.put("one", "two")
        for status in (500, 404, 302):
            self.receiver.status = status
            self.hurry()
            self.assertEqual(0, self.deliver())
        self.assertEqual(3, self.receiver.refused)
        self.receiver.status = 204
        self.assertEqual(0, self.deliver())  # Not before it is time.
        self.hurry()
        self.assertEqual(2, self.deliver())
        self.assertEqual(["one", "two"], self.taken())

    def test_a_receiver_that_dies_and_comes_back(self):
        self.put("one")
        self.receiver.stop()
        self.assertEqual(0, self.deliver())
        self.receiver.start()
        self.hurry()
        self.assertEqual(1, self.deliver())
        self.assertEqual(["one"], self.taken())
        self.assertNotIn("sesame", self.logger.output)

    def test_one_that_is_dead_does_not_delay_others(self):
        other = self.useFixture(receivers.Receiver())
        self.receiver.status = 500
        targets = [*self.targets, Target(other.url, receivers.SECRET.encode())]
        self.put("one", "two", targets=targets)
        self.assertEqual(2, self.deliver(targets))
        self.assertEqual(["one", "two"], [event_id for event_id, _ in other.events])

    def test_one_that_never_comes_to_the_end_of_its_answer(self):
        """The request is given up, and no other one is made beside it."""
        sender = Sender(self.targets[0])
        self.put("one")
        self.receiver.may_end.clear()
        with fixtures.MonkeyPatch(f"{webhooks.__name__}._REQUEST_SECONDS", 0.2):
            self.assertFalse(sender.deliver(self.context()))
        self.assertIn("no answer", self.logger.output)
        self.assertEqual(webhooks.UndeliveredReports(1, 1), webhooks.count_undelivered(self.ctx))
        self.hurry()
        self.assertFalse(sender.deliver(self.context()))
        self.assertEqual(
            (["one"], 1), (self.taken(), self.logger.output.count("is sent again")))
        self.receiver.may_end.set()
        sender._request.join()
        self.hurry()
        self.assertEqual(1, self.drain(sender))
        self.assertEqual((["one", "one"], 0), (self.taken(), self.count()))

    def test_managers_beside_each_other_send_each_once(self):
        self.put(*(f"event-{number}" for number in range(12)))
        threads = [threading.Thread(target=self.deliver) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.deliver()
        self.assertEqual([f"event-{number}" for number in range(12)], self.taken())

    def test_what_a_manager_that_died_has_dequeued_is_sent_by_another_one(self):
        self.put("one")
        row = webhooks._read_due(self.ctx, self.targets[0].digest)
        self.assertTrue(webhooks._dequeue(self.ctx, row))
        self.assertFalse(webhooks._dequeue(self.ctx, row))
        self.assertEqual(0, self.deliver())
        self.expire()
        self.assertEqual(1, self.deliver())

    def test_a_manager_that_was_paused_leaves_the_next_report_alone(self):
        """SQLite gives the id of a report that was delivered to the next one."""
        take = self.receiver.take

        def pause(headers, body):
            """Let other managers deliver this report, and fail with the next one."""
            self.receiver.take = take
            self.expire()
            self.assertEqual(1, self.deliver())
            self.put("two")
            self.receiver.status = 500
            self.assertEqual(0, self.deliver())
            self.receiver.status = 204
            take(headers, body)

        self.receiver.take = pause
        self.put("one")
        self.deliver()
        self.assertEqual(1, self.count())
        self.hurry()
        self.deliver()
        self.assertEqual(["one", "one", "two"], self.taken())

    def test_what_nobody_took_for_days_is_discarded(self):
        self.put("one", "two")
        self.give_up("one")
        self.assertEqual(0, self.deliver())
        self.assertFalse(self.discard_late(self.targets))
        self.assertEqual(1, self.deliver())
        self.assertEqual((["two"], 0), (self.taken(), self.count()))
        self.assertIn("report one is discarded: 127.0.0.1 did not take it", self.logger.output)

    def test_many_that_nobody_took_for_days(self):
        self.useFixture(fixtures.MonkeyPatch(f"{webhooks.__name__}._DISCARD_BATCH", 2))
        self.put("one", "two", "three")
        for event_id in ("one", "two", "three"):
            self.give_up(event_id)
        self.assertTrue(self.discard_late())
        self.assertFalse(self.discard_late())
        self.assertEqual(0, self.count())

    def test_what_is_being_sent_is_not_discarded(self):
        self.put("one")
        self.assertTrue(webhooks._dequeue(
            self.ctx, webhooks._read_due(self.ctx, self.targets[0].digest)))
        self.give_up("one")
        self.discard_late()
        self.assertEqual(1, self.count())

    def test_a_webhook_that_this_manager_does_not_have(self):
        """Another one may have it already: this one was not restarted since."""
        other = self.useFixture(receivers.Receiver())
        self.put("one")
        self.put("two", targets=[Target(other.url, receivers.SECRET.encode())])
        self.assertEqual(1, self.deliver([Target(other.url, receivers.SECRET.encode())]))
        self.discard_late()
        self.assertEqual(1, self.deliver())
        self.assertEqual(["one"], self.taken())

    def test_a_webhook_that_is_not_configured_any_more(self):
        """After days nobody has it."""
        self.put("one", "two")
        self.give_up("one")
        self.discard_late()
        self.assertEqual(([], 1), (self.taken(), self.count()))
        self.give_up("two")
        self.discard_late()
        self.assertEqual(([], 0), (self.taken(), self.count()))
        self.assertIn("report one is discarded: nobody took it for days, and this manager",
                      self.logger.output)

    def test_the_database_has_no_url(self):
        self.put("one")
        with self.database.autocommit.connect() as connection:
            [row] = connection.execute(sa.select(_rows))
        self.assertNotIn("sesame", repr(row))
        self.assertNotIn("127.0.0.1", repr(row))


class TestWork(base.DatabaseTestCase):
    """What the first report costs does not depend on how many wait behind it."""

    def test_many_that_wait(self):
        target = Target("https://a", b"secret")
        with db.write(self.ctx) as session:
            webhooks.put(session, [target], "one", "{}")
        before = self.count_steps(target)
        with db.write(self.ctx) as session:
            for number in range(500):
                webhooks.put(session, [target], f"event-{number}", "{}")
        self.assertLess(self.count_steps(target), 2 * before)

    def count_steps(self, target):
        """Return how many instructions of SQLite's virtual machine the query executes."""
        steps = []
        with self.database.autocommit.connect() as connection:
            driver = connection.connection.dbapi_connection
            driver.set_progress_handler(lambda: steps.append(1), 1)
            row = connection.execute(webhooks._DUE, {"digest": target.digest}).one()
            driver.set_progress_handler(None, 0)
        self.assertEqual("one", row.event_id)
        return len(steps)


class TestTargets(base.TestCase):

    def read(self, *urls, secret="secret"):
        options = configuration("sqlite://", {
            ("thresholds", "webhook"): list(urls), ("thresholds", "webhook_secret"): secret})
        return webhooks.read_targets(options)

    def test_secrets(self):
        self.assertEqual([b"secret"], [each.secret for each in self.read("https://a/b")])
        self.assertEqual(
            [b"secret"], [each.secret for each in self.read("https://a", secret="whsec_c2VjcmV0")])
        self.assertNotIn("secret", repr(self.read("https://a/secret")))

    def test_the_example_of_the_specification(self):
        [target] = self.read("https://a", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        self.assertEqual(
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            target.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'))

    def test_none(self):
        self.assertEqual([], self.read(secret=None))

    def test_what_is_configured_wrongly(self):
        for url in ("ftp://a", "https://", "file:///etc/passwd", "a", "http://[", "http://a:x"):
            error = self.assertRaises(errors.ConfigurationError, self.read, url)
            self.assertIn("webhook", str(error))
        for secret in (None, "", "whsec_", "whsec_?"):
            error = self.assertRaises(
                errors.ConfigurationError, self.read, "https://a", secret=secret)
            self.assertIn("webhook_secret", str(error))

    def test_the_options_are_secret(self):
        for option in conf.thresholds.OPTIONS:
            if option.name.startswith("webhook"):
                self.assertTrue(option.secret, option.name)
