"""Bounds on a database that loses races, connections, or its voice."""

import dataclasses
import threading
import time
import types

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.changes import tables as change_tables
from placement_core.context import Context
from placement_core.db import PreparedRead, availability, failures
from placement_core.db.availability import Away
from placement_core.db.database import Database
from placement_core.placement import tables
from tests import base, databases
from tests.outages import links

_projects = tables.projects
_PORTS = {"postgresql": 5432, "mysql": 3306}
_NAMES = PreparedRead(
    sa.select(_projects.c.id).where(_projects.c.external_id == sa.bindparam("name")))

#: Has a server send what a node answers that has left its Galera cluster.
_NOT_READY = "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047, MESSAGE_TEXT = 'not ready'"


class TestPatience(base.DatabaseTestCase):
    """A request repeats what it lost, within one bound."""

    def lose(self, error=db.TransactionConflict):
        attempts = []

        @db.retry_writes
        def inner(ctx):
            attempts.append(1)
            raise error

        @db.retry_writes
        def outer(ctx):
            inner(ctx)

        self.assertRaises(db.TransactionConflict, outer, self.ctx)
        return len(attempts)

    def test_functions_that_call_each_other_share_it(self):
        self.database.retries = 3
        self.assertEqual(4, self.lose())
        # The next request has its own.
        self.assertEqual(4, self.lose())

    def test_it_ends_in_time(self):
        self.database.retries, self.database.retry_seconds = 10**6, 0.3
        started = time.monotonic()
        self.lose()
        self.assertLess(time.monotonic() - started, 3)

    def test_lost_connections_are_not_counted(self):
        self.database.retries, self.database.retry_seconds = 0, 1.0
        self.assertEqual(1, self.lose())
        self.assertLess(3, self.lose(failures.ConnectionLost))

    def test_time_counts_from_the_first_failure(self):
        self.database.retry_seconds = 0.2
        attempts = []

        @db.retry_writes
        def slow(ctx):
            attempts.append(1)
            time.sleep(0.3)
            if len(attempts) == 1:
                raise db.TransactionConflict

        slow(self.ctx)
        self.assertEqual(2, len(attempts))


@databases.on_each_database
class TestSilence(base.DatabaseTestCase):
    """A server behind a link that falls silent."""

    def setUp(self):
        super().setUp()
        if self.kind == "sqlite":
            self.skipTest("an SQLite database is a file")
        url = self.database.url
        self.link = self.useFixture(links.Link((url.host, url.port or _PORTS[self.kind])))
        host, port = self.link.address
        self.far = Context(Database(
            dataclasses.replace(
                self.database.settings, network_timeout_seconds=2,
                connection=url.set(host=host, port=port).render_as_string(hide_password=False)),
            self.database.journal))
        self.addCleanup(self.far.database.dispose)
        self.names("warm")

    def names(self, name, ctx=None):
        return len(_NAMES.fetch(ctx or self.far, {"name": name}))

    @staticmethod
    @db.retry_writes
    def insert(ctx, name):
        with db.write(ctx) as session:
            session.execute(sa.insert(_projects), {"external_id": name})
            session.record_change("trait", 1)

    def hang_at_commit(self, seconds=None):
        """Let the link fall silent at the next COMMIT, for some seconds or for good."""
        def hang(_connection):
            self.link.hang()
            if seconds is not None:
                threading.Timer(seconds, self.link.restore).start()

        self.insert(self.far, f"warm {seconds}")
        sa.event.listen(self.far.database.writer, "commit", hang, once=True)

    def timed(self, do, *arguments):
        """Expect ``Unavailable``; return after how many seconds it came."""
        started = time.monotonic()
        self.assertRaises(errors.Unavailable, do, *arguments)
        return time.monotonic() - started

    def test_reads_and_writes_are_bounded(self):
        self.link.hang()
        self.assertLess(self.timed(self.names, "x"), 10)
        # From now on, nobody waits.
        self.assertLess(self.timed(self.names, "x"), 0.5)
        self.assertLess(self.timed(self.insert, self.far, "x"), 0.5)
        self.assertRaises(Away, self.far.database.availability.require)
        self.link.restore()
        self.wait_until_it_answers()
        self.insert(self.far, "one")
        self.assertEqual(1, self.names("one"))

    def wait_until_it_answers(self):
        deadline = time.monotonic() + 10
        while self.far.database.availability.is_away and time.monotonic() < deadline:
            time.sleep(0.05)

    def test_a_commit_is_looked_up(self):
        """What the server does with a COMMIT in the end is what the client hears."""
        for seconds in (0.3, 3.5):
            name = f"after {seconds}"
            self.hang_at_commit(seconds)
            self.insert(self.far, name)
            self.assertEqual(1, self.names(name, self.ctx))

    def test_a_commit_that_cannot_be_looked_up(self):
        self.hang_at_commit()
        started = time.monotonic()
        error = self.assertRaises(errors.Unavailable, self.insert, self.far, "one")
        self.assertIn("whether it was made is not known yet", str(error))
        self.assertLess(time.monotonic() - started, 20)

    def test_a_slow_statement_is_let_be(self):
        slow = {"postgresql": "SELECT pg_sleep(4)", "mysql": "SELECT SLEEP(4)"}[self.kind]
        with db.read(self.far) as session:
            session.connection.exec_driver_sql(slow).all()
        self.assertFalse(self.far.database.availability.is_away)

    def test_a_slow_row_lock_is_let_be(self):
        heads = change_tables.change_heads
        writer = threading.Thread(
            target=self.insert, args=(Context(self.far.database), "later"))
        with db.write(self.ctx) as session:
            session.execute(sa.update(heads).values(txn=1))
            writer.start()
            time.sleep(4)
        writer.join(20)
        self.assertEqual(1, self.names("later"))
        self.assertFalse(self.far.database.availability.is_away)

    def test_a_node_that_takes_no_statements(self):
        """One that has left its Galera cluster: nobody tries again and again."""
        if self.kind != "mysql":
            self.skipTest("only Galera")
        attempts = []
        here = self.far.database.availability
        here._probe = self.probe_what_takes_no_statements

        @db.retry_writes
        def insert(ctx):
            with ctx.database.connection(ctx.database.autocommit) as connection:
                attempts.append(1)
                connection.exec_driver_sql(_NOT_READY)

        self.assertRaises(Away, insert, self.far)
        self.assertEqual([1], attempts)
        self.assertTrue(here.is_away)
        here._probe = self.far.database.probe
        self.wait_until_it_answers()
        self.insert(self.far, "one")

    def probe_what_takes_no_statements(self):
        with self.database.autocommit.connect() as connection:
            connection.exec_driver_sql(_NOT_READY)

    def test_no_thread_can_be_started(self):
        """Nobody is kept from asking the database himself."""
        self.patch(availability, "threading", types.SimpleNamespace(
            Thread=self.refuse_to_start, Event=threading.Event, Lock=threading.Lock))
        here = self.far.database.availability
        self.link.cut()
        self.assertRaises(errors.Unavailable, self.names, "x")
        self.assertFalse(here.is_away)
        self.link.restore()
        self.assertEqual(0, self.names("x"))
        # Who never ends a use is looked after for good, in the logs of other tests.
        self.addCleanup(here.end_use, self)
        here.begin_use(self)
        here._in_use[id(self)] = self, time.monotonic() - 2
        here.look_after()
        self.assertFalse(here._looking)

    def test_the_watch_cannot_be_started(self):
        """A request goes on without it, and the next one tries again."""
        self.patch(availability, "_watch", availability._Watch())
        self.patch(availability, "threading", types.SimpleNamespace(
            Thread=self.refuse_to_start, Event=threading.Event, Lock=threading.Lock))
        here = self.far.database.availability
        here._watched = False
        self.assertEqual(0, self.names("x"))
        self.assertFalse(here._watched)
        started = []
        availability.threading.Thread = lambda **options: types.SimpleNamespace(
            start=lambda: started.append(options["name"]))
        self.assertEqual(0, self.names("x"))
        self.assertTrue(here._watched)
        self.assertEqual(["database watch"], started)

    def refuse_to_start(self, **_options):
        raise RuntimeError("can't start new thread")

    def test_a_connection_that_is_lost_already(self):
        """Nobody can abort it, and an outage ends all the same."""
        here = self.far.database.availability
        with self.far.database.writer.connect() as connection:
            driver = connection.connection.dbapi_connection
            driver.close()
            connection.invalidate()
            self.addCleanup(here.end_use, driver)
            here.begin_use(driver)
            self.link.hang()
            self.timed(self.names, "x")
            self.link.restore()
            self.wait_until_it_answers()
        self.assertFalse(here.is_away)

    def test_one_tls_context(self):
        """PyMySQL reads the system's certificates for each that it makes."""
        if self.kind != "mysql":
            self.skipTest("only PyMySQL")
        with self.database.writer.connect() as one, self.database.snapshot.connect() as other:
            first, second = (each.connection.dbapi_connection for each in (one, other))
            self.assertIsNot(first, second)
            self.assertIs(first.ctx, second.ctx)

    def test_answers_are_waited_for_as_long_as_the_server_may_take(self):
        """A dead connection to a live server has a bound, too."""
        if self.kind != "mysql":
            self.skipTest("PostgreSQL's connections have keepalives")
        with self.far.database.writer.connect() as connection:
            settings = self.far.database.settings
            driver = connection.connection.dbapi_connection
            self.assertEqual(
                settings.statement_timeout_seconds + settings.network_timeout_seconds,
                driver._read_timeout)
