import dataclasses
import threading
import time

import fixtures
import pymysql
import sqlalchemy as sa
from oslo_db import exception as db_exception
from psycopg import errors as postgresql

from placement_core import db, errors, metrics
from placement_core.changes import tables as change_tables, vector
from placement_core.db import failures, transactions
from placement_core.db.database import Database
from placement_core.placement import tables
from tests import base, databases, races, scraping

_projects = tables.projects

#: What SQLAlchemy asks a server on the first connection of an engine.
_FIRST_QUESTIONS = {
    "postgresql": ["_get_server_version_info", "_get_default_schema_name",
                   "_set_backslash_escapes"],
    "mysql": ["_get_server_version_info", "_get_default_schema_name", "_detect_sql_mode",
              "_detect_casing"],
}
_END_SESSION = {"postgresql": "SELECT pg_terminate_backend({}, 5000)", "mysql": "KILL {}"}


def _names(ctx):
    with db.read(ctx) as session:
        return set(session.execute(sa.select(_projects.c.external_id)).scalars())


def _add(session, name):
    session.execute(sa.insert(_projects), {"external_id": name})


@databases.on_each_database
class TestTransactions(base.DatabaseTestCase):

    def test_an_inner_write_joins_the_outer_one(self):
        def outer():
            with db.write(self.ctx) as session:
                _add(session, "outer")
                with db.write(self.ctx) as inner, db.read(self.ctx) as reader:
                    self.assertIs(session, inner)
                    self.assertIs(session, reader)
                    _add(inner, "inner")
                raise KeyError

        self.assertRaises(KeyError, outer)
        self.assertEqual(set(), _names(self.ctx))
        self.assertIsNone(self.ctx.session)

    def test_no_write_inside_a_read(self):
        with db.read(self.ctx):
            self.assertRaises(RuntimeError, db.write(self.ctx).__enter__)

    def test_a_read_sees_one_moment(self):
        with db.read(self.ctx) as session:
            session.execute(sa.select(_projects)).all()
            with db.write(self.context()) as writer:
                _add(writer, "late")
            self.assertEqual([], session.execute(sa.select(_projects)).all())
        self.assertEqual({"late"}, _names(self.ctx))

    def test_a_write_decides_on_what_is_committed(self):
        """READ COMMITTED: after the lock, the present is read."""
        if self.kind == "sqlite":
            self.skipTest("SQLite has one writer at a time")
        with db.write(self.ctx) as session:
            session.execute(sa.select(_projects)).all()
            with db.write(self.context()) as writer:
                _add(writer, "late")
            self.assertEqual(1, len(session.execute(sa.select(_projects)).all()))

    def test_a_connection_comes_back_clean(self):
        for end in (KeyError, KeyboardInterrupt, None):
            try:
                with db.write(self.ctx) as session:
                    _add(session, f"{end}")
                    if end:
                        raise end
            except (KeyError, KeyboardInterrupt):
                pass
        self.assertEqual({"None"}, _names(self.ctx))
        for engine in (self.database.writer, self.database.snapshot, self.database.autocommit):
            self.assertEqual(0, engine.pool.checkedout())

    def test_only_the_outermost_is_repeated(self):
        attempts = []

        @db.retry_writes
        def inner(ctx):
            attempts.append("inner")
            with db.write(ctx) as session:
                _add(session, f"attempt {len(attempts)}")
            if len(attempts) < 5:
                raise db.TransactionConflict

        @db.retry_writes
        def outer(ctx):
            attempts.append("outer")
            with db.write(ctx):
                inner(ctx)

        outer(self.ctx)
        self.assertEqual(["outer", "inner"] * 3, attempts)
        self.assertEqual({"attempt 6"}, _names(self.ctx))

    def test_patience_ends(self):
        attempts = []
        self.database.retries = 3

        @db.retry_writes
        def lose(ctx):
            attempts.append(1)
            raise db_exception.DBDeadlock

        self.assertRaises(errors.Unavailable, lose, self.ctx)
        self.assertEqual(4, len(attempts))

    def test_a_deadlock_is_repeated(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite has one writer at a time")
        with db.write(self.ctx) as session:
            for name in "ab":
                _add(session, name)
        update = (sa.update(_projects).where(_projects.c.external_id == sa.bindparam("name"))
                  .values(updated_at=sa.func.now()))
        attempts = []
        each_has_one = threading.Barrier(2)

        @db.retry_writes
        def both(ctx, names):
            again = names in attempts
            attempts.append(names)
            with db.write(ctx) as session:
                session.execute(update, {"name": names[0]})
                if not again:
                    each_has_one.wait(20)
                session.execute(update, {"name": names[1]})

        first, second = self.context(), self.context()
        self.assertEqual([None, None], races.run(
            lambda: both(first, "ab"), lambda: both(second, "ba")))
        self.assertEqual(3, len(attempts))

    def test_pruning_that_fails_is_not_the_writers_problem(self):
        def fail(*_anything):
            raise db_exception.DBError

        self.database.journal.notice_commit = fail
        with db.write(self.ctx) as session:
            _add(session, "kept")
            session.record_change("trait", 1)
        self.assertEqual({"kept"}, _names(self.ctx))


@databases.on_each_database
class TestMetrics(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()

    def numbers(self, name):
        return scraping.counted(lambda: scraping.shown()[1], name)

    def test_retries_by_cause(self):
        errors_to_raise = [
            db_exception.DBDeadlock, db.TransactionConflict, failures.ConnectionLost,
            db_exception.DBDeadlock]

        @db.retry_writes
        def write(ctx):
            if errors_to_raise:
                raise errors_to_raise.pop()

        write(self.ctx)
        self.assertEqual({("deadlock",): 2, ("changed_rows",): 1, ("connection",): 1},
                         self.numbers("database_retries_total"))

    def test_what_is_not_tried_again_is_no_retry(self):
        self.database.retries = 2

        @db.retry_writes
        def lose(ctx):
            raise db.TransactionConflict

        self.assertRaises(errors.Unavailable, lose, self.ctx)
        self.assertEqual({("changed_rows",): 2}, self.numbers("database_retries_total"))

    def test_commits(self):
        for _ in range(3):
            with db.write(self.ctx), db.write(self.ctx):
                pass
        with db.read(self.ctx):
            pass
        self.assertEqual({(): 3}, self.numbers("database_commit_seconds_count"))
        self.assertLess(0, self.numbers("database_commit_seconds_sum")[()])

    def test_waiting_for_a_lock(self):
        heads = change_tables.change_heads
        update = sa.update(heads).where(heads.c.slot == 0).values(txn=sa.bindparam("new"))

        def write(ctx, later):
            with db.write(ctx) as session:
                if later:
                    session.write_later(update, {"new": 2})
                else:
                    session.execute_write(update, {"new": 2})

        for number, later in enumerate((True, False), start=1):
            with db.write(self.ctx) as session:
                session.execute_write(update, {"new": 1})
                waiting = threading.Thread(target=write, args=(self.context(), later))
                waiting.start()
                time.sleep(0.5)
            waiting.join(20)
            # On a busy machine others may seem to wait, too.
            self.assertLessEqual(number, self.numbers("database_lock_wait_seconds_count")[()])
            self.assertLess(0.4 * number, self.numbers("database_lock_wait_seconds_sum")[()])


@databases.on_each_database
class TestFailures(base.DatabaseTestCase):

    def impatient(self, **settings):
        """Return a context on the same database with other bounds."""
        database = Database(
            dataclasses.replace(self.database.settings, **settings), self.database.journal)
        self.addCleanup(database.dispose)
        return type(self.ctx)(database)

    def test_waiting_for_a_lock(self):
        ctx = self.impatient(lock_timeout_seconds=1)
        with db.write(self.ctx) as session:
            session.execute(sa.update(change_tables.change_heads).values(txn=1))
            started = time.monotonic()
            error = self.assertRaises(errors.Unavailable, self.touch, ctx)
            self.assertLess(time.monotonic() - started, 10)
        self.assertNotIsInstance(error, db.TransactionConflict)
        self.touch(ctx)

    @staticmethod
    @db.retry_writes
    def touch(ctx):
        with db.write(ctx) as session:
            session.record_change("trait", 1)

    def test_the_first_connection_breaks(self):
        """Its session is ended while SQLAlchemy asks the server what it is."""
        if self.kind == "sqlite":
            self.skipTest("SQLite has no sessions.")
        for question in _FIRST_QUESTIONS[self.kind]:
            for use in (self.touch, vector.read_digest):
                ctx = self.impatient()
                ended = [self.end_session_before(engine, question)
                         for engine in (ctx.database.writer, ctx.database.autocommit)]
                use(ctx)
                self.assertEqual([0, 1], sorted(map(len, ended)), (question, use))
                # Those that were lost are not looked after for ever.
                self.assertEqual({}, ctx.database.availability._in_use, (question, use))

    def end_session_before(self, engine, question):
        """Have an engine lose its first connection; return a list of the ended sessions."""
        ask, ended = getattr(engine.dialect, question), []

        def end_once(connection, *more, **options):
            if not ended:
                driver = connection.connection.dbapi_connection
                ended.append(driver.info.backend_pid if self.kind == "postgresql"
                             else driver.thread_id())
                with self.database.autocommit.connect() as other:
                    other.exec_driver_sql(_END_SESSION[self.kind].format(ended[0]))
            return ask(connection, *more, **options)

        self.patch(engine.dialect, question, end_once)
        return ended

    def test_a_missing_reference_whose_text_is_cut(self):
        """As MySQL does at 256 characters."""
        if self.kind != "mysql":
            self.skipTest("only MySQL")
        for number in (1451, 1452):
            with db.write(self.ctx) as session:
                self.assertRaises(
                    db_exception.DBReferenceError, session.connection.exec_driver_sql,
                    f"SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = {number}, "
                    "MESSAGE_TEXT = 'Cannot add or update a child row: a foreign key'")

    def test_a_statement_that_takes_too_long(self):
        slow = {"postgresql": "SELECT pg_sleep(5)", "mysql": "SELECT SLEEP(5) FROM projects"}
        if self.kind == "sqlite":
            self.skipTest("SQLite bounds no statement")
        with db.write(self.ctx) as session:
            _add(session, "one row")
        ctx = self.impatient(statement_timeout_seconds=1)

        def wait(opened):
            with opened(ctx) as session:
                session.connection.exec_driver_sql(slow[self.kind])

        for opened in (db.read, db.write):
            self.assertRaises(errors.Unavailable, wait, opened)

    def test_no_connection_left(self):
        ctx = self.impatient(max_pool_size=1, max_overflow=0, pool_timeout_seconds=1)
        with db.read(ctx):
            other = type(ctx)(ctx.database)
            error = self.assertRaises(errors.Unavailable, db.read(other).__enter__)
        self.assertIn("Every connection", str(error))

    def test_an_idle_transaction_is_ended(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite ends no transaction by itself")
        self.skip_on_mysql("it does not bound idle transactions")
        ctx = self.impatient(idle_in_transaction_timeout_seconds=1)
        attempts = []

        @db.retry_writes
        def think(ctx):
            attempts.append(1)
            with db.write(ctx) as session:
                _add(session, "slow")
                if len(attempts) == 1:
                    time.sleep(2.5)
                session.record_change("trait", 1)

        think(ctx)
        self.assertEqual(2, len(attempts))
        self.assertEqual({"slow"}, _names(self.ctx))

    def test_values_that_no_row_holds(self):
        heads = change_tables.change_heads

        def write(statement, values):
            with db.write(self.ctx) as session:
                session.execute(statement, values)

        insert = sa.insert(_projects)
        update = sa.update(heads).where(heads.c.slot == 0).values(txn=sa.bindparam("new"))
        for statement, values in (
            (insert, {"external_id": "\ud800"}),
            (update, {"new": 2**63}),
            (update, {"new": 2**200}),
        ):
            self.assertRaises(errors.Invalid, write, statement, values)
        if self.kind != "sqlite":
            self.assertRaises(errors.Invalid, write, insert, {"external_id": "a" * 256})
        if self.kind == "postgresql":
            self.assertRaises(errors.Invalid, write, insert, {"external_id": "a\0"})
        self.assertEqual(set(), _names(self.ctx))

    def test_a_defect_stays_one(self):
        def write(statement):
            with db.write(self.ctx) as session:
                session.connection.exec_driver_sql(statement)

        for statement in ("SELEKT 1", "SELECT * FROM no_such_table"):
            error = self.assertRaises(Exception, write, statement)
            self.assertNotIsInstance(error, errors.Error)

    def test_duplicates_stay_what_they_are(self):
        def write():
            with db.write(self.ctx) as session:
                _add(session, "twice")
                _add(session, "twice")

        self.assertRaises(db_exception.DBDuplicateEntry, write)


class TestVerdicts(base.TestCase):
    """Complaints that are hard to provoke."""

    @staticmethod
    def complaint(driver_error):
        return db_exception.DBError(sa.exc.OperationalError("UPDATE", {}, driver_error))

    def test_mysql(self):
        for code, kind in (
            (1213, failures.RolledBack), (1020, failures.RolledBack),
            (3101, failures.RolledBack),
            (1047, failures.ConnectionLost), (2013, failures.ConnectionLost),
            (1205, errors.Unavailable), (1290, failures.ReadOnly),
            (1040, errors.Unavailable), (1406, errors.Invalid),
        ):
            meaning = failures.translate(self.complaint(pymysql.err.OperationalError(code, "…")))
            self.assertIs(kind, type(meaning), code)

    def test_postgresql(self):
        for error, kind in (
            (postgresql.SerializationFailure, failures.RolledBack),
            (postgresql.DeadlockDetected, failures.RolledBack),
            (postgresql.AdminShutdown, failures.ConnectionLost),
            (postgresql.IdleInTransactionSessionTimeout, failures.ConnectionLost),
            (postgresql.LockNotAvailable, errors.Unavailable),
            (postgresql.ReadOnlySqlTransaction, failures.ReadOnly),
            (postgresql.DiskFull, errors.Unavailable),
            (postgresql.NumericValueOutOfRange, errors.Invalid),
        ):
            self.assertIs(kind, type(failures.translate(self.complaint(error("…")))), error)

    def test_others(self):
        error = KeyError("ours")
        self.assertIs(error, failures.translate(error))
        lost = transactions.TransactionConflict()
        self.assertIs(lost, failures.translate(lost))
