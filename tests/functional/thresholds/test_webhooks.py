"""Reports come to webhooks: signed, in order, at least once."""

from __future__ import annotations

import threading

import fixtures
import sqlalchemy as sa

from placement_core import conf, db, errors
from placement_core.thresholds import tables, webhooks
from placement_core.thresholds.webhooks import Target
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
        return webhooks.deliver(self.context(), targets or self.targets)

    def hurry(self):
        """Let what waits be due."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text(
                "UPDATE webhook_deliveries SET next_at = '2020-01-01 00:00:00.000000'"))

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

    def test_one_that_hangs_does_not_delay_others(self):
        """It answers when the other one has got all reports."""
        other, all_came = self.useFixture(receivers.Receiver()), threading.Event()
        take, take_other = self.receiver.take, other.take

        def hang(headers, body):
            assert all_came.wait(10)
            take(headers, body)

        def count(headers, body):
            take_other(headers, body)
            if len(other.events) == 2:
                all_came.set()

        self.receiver.take, other.take = hang, count
        targets = [*self.targets, Target(other.url, receivers.SECRET.encode())]
        self.put("one", "two", targets=targets)
        self.assertEqual(4, self.deliver(targets))
        self.assertEqual(["one", "two"], self.taken())

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
        [row] = webhooks._read_due(self.ctx)
        self.assertTrue(webhooks._dequeue(self.ctx, row))
        self.assertFalse(webhooks._dequeue(self.ctx, row))
        self.assertEqual(0, self.deliver())
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text(
                "UPDATE webhook_deliveries SET deadline_at = '2020-01-01 00:00:00.000000'"))
        self.assertEqual(1, self.deliver())

    def test_what_nobody_took_for_days_is_discarded(self):
        self.put("one", "two")
        with self.database.autocommit.connect() as connection:
            connection.execute(
                sa.text("UPDATE webhook_deliveries SET give_up_at = "
                        "'2020-01-01 00:00:00.000000' WHERE event_id = 'one'"))
        self.assertEqual(1, self.deliver())
        self.assertEqual((["two"], 0), (self.taken(), self.count()))
        self.assertIn("report one is discarded", self.logger.output)

    def test_a_webhook_that_is_not_configured_any_more(self):
        self.put("one")
        self.assertEqual(0, webhooks.deliver(self.ctx, []))
        self.assertEqual(([], 0), (self.taken(), self.count()))

    def test_the_database_has_no_url(self):
        self.put("one")
        with self.database.autocommit.connect() as connection:
            [row] = connection.execute(sa.select(_rows))
        self.assertNotIn("sesame", repr(row))
        self.assertNotIn("127.0.0.1", repr(row))


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
