"""Every error in ``server_errors`` is sent by a server, and by itself where that can be had."""

import contextlib
import dataclasses
import os
import pathlib
import sqlite3
import threading
import time

import fixtures
import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.cells import tables as cell_tables
from placement_core.changes import tables as change_tables
from placement_core.context import Context
from placement_core.db import PreparedRead, failures, sequences
from placement_core.db.database import Database
from placement_core.db.server_errors import BY_DIALECT, Meaning
from placement_core.placement import tables
from tests import base, databases, races

_projects = tables.projects
_cells, _instances = cell_tables.cell_mappings, cell_tables.instance_mappings
_heads = change_tables.change_heads

_VERDICTS = {
    Meaning.RETRY: failures.RolledBack,
    Meaning.LOST: failures.ConnectionLost,
    Meaning.REFUSED: errors.Unavailable,
    Meaning.READ_ONLY: failures.ReadOnly,
    Meaning.DATA: errors.Invalid,
    Meaning.DUPLICATE: db_exception.DBDuplicateEntry,
    Meaning.REFERENCE: db_exception.DBReferenceError,
}

#: What makes a server send an error of ours.
_MAKERS = {
    "postgresql": """
        CREATE OR REPLACE FUNCTION send_error(state text) RETURNS integer AS $$
        BEGIN RAISE EXCEPTION 'sent' USING ERRCODE = state; END $$ LANGUAGE plpgsql""",
    "mysql": """
        CREATE FUNCTION send_error(number INTEGER) RETURNS INTEGER DETERMINISTIC
        BEGIN
            SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = number, MESSAGE_TEXT = 'sent';
            RETURN 0;
        END""",
}
_SENT = sa.func.send_error(sa.bindparam("code"), type_=sa.Integer)
_SELECT = sa.select(_SENT.label("sent"))
_UPDATE = sa.update(_heads).where(_heads.c.slot == sa.bindparam("of")).values(serial=_SENT)


class TestTable(base.TestCase):
    """The table is in order."""

    def test_each_error_is_there_once_and_says_how_it_is_tested(self):
        for dialect, rows in BY_DIALECT.items():
            codes = [row.code for row in rows]
            self.assertEqual(len(codes), len(set(codes)), dialect)
            for row in rows:
                if not row.seen_in.startswith("- "):
                    self.assertTrue(hasattr(TestSeen, row.seen_in), row)


@databases.on_each_database
class TestEachError(base.DatabaseTestCase):
    """What the server sends means the same, whichever road the statement took."""

    def setUp(self):
        super().setUp()
        if self.kind == "sqlite":
            self.skipTest("SQLite has no server that could be told to send an error")
        engine = sa.create_engine(
            self.database.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("DROP FUNCTION IF EXISTS send_error")
            connection.exec_driver_sql(_MAKERS[self.kind])
        self.addCleanup(self._drop, engine)

    @staticmethod
    def _drop(engine):
        with engine.connect() as connection:
            connection.exec_driver_sql("DROP FUNCTION IF EXISTS send_error")

    def roads(self):
        """Return the ways to the server: what each needs is a code."""
        prepared = PreparedRead(_SELECT)

        def execute(opened, statement, **more):
            def send(code):
                with opened(self.ctx) as session:
                    session.execute(statement, {"code": code, **more})
            return send

        def execute_write(code):
            with db.write(self.ctx) as session:
                session.execute_write(_UPDATE, {"code": code, "of": 0})

        def write_later(code):
            with db.write(self.ctx) as session:
                session.write_later(_UPDATE, {"code": code, "of": 0})

        def fetch_in(code):
            with db.write(self.ctx) as session:
                prepared.fetch_in(session, {"code": code})

        def fetch_later(code):
            with db.write(self.ctx) as session:
                prepared.fetch_later(session, {"code": code})()

        return {
            "read": execute(db.read, _SELECT), "read_once": execute(db.read_once, _SELECT),
            "read_each": execute(db.read_each, _SELECT),
            "write": execute(db.write, _UPDATE, of=0),
            "execute_write": execute_write, "write_later": write_later,
            "prepared": lambda code: prepared.fetch(self.ctx, {"code": code}),
            "prepared in a transaction": fetch_in, "prepared and deferred": fetch_later,
        }

    def test_each_on_every_road(self):
        # A prepared read is repeated where its connection is lost.
        self.database.retry_seconds = 0
        for row in BY_DIALECT[self.kind]:
            if row.code == 0:
                continue  # That is no number that a server can send.
            code = f"{row.code}000" if len(str(row.code)) == 2 else row.code
            for road, send in self.roads().items():
                error = self.assertRaises(Exception, send, code)
                self.assertIs(_VERDICTS[row.meaning], type(error), f"{row} {road}: {error!r}")
        self.assertFalse(self.database.availability.is_away)

    def test_what_is_lost_is_repeated(self):
        for row in BY_DIALECT[self.kind]:
            if row.code == 0 or row.meaning not in (Meaning.RETRY, Meaning.LOST):
                continue
            attempts = []

            @db.retry_writes
            def write(ctx, row=row, attempts=attempts):
                attempts.append(1)
                with db.write(ctx) as session:
                    session.execute(sa.insert(_projects), {"external_id": f"of {row.code}"})
                    if len(attempts) == 1:
                        code = f"{row.code}000" if len(str(row.code)) == 2 else row.code
                        session.execute_write(_UPDATE, {"code": code, "of": 0})
                    session.record_change("trait", 1)

            write(self.ctx)
            self.assertEqual(2, len(attempts), row)

    def test_a_commit_that_fails_is_looked_up(self):
        """Whatever the error, what did not happen is repeated and what did is not."""
        for row in BY_DIALECT[self.kind]:
            if row.code == 0 or row.meaning not in (Meaning.RETRY, Meaning.LOST):
                continue
            for happened in (False, True):
                if happened and row.meaning is Meaning.RETRY:
                    continue  # The server says that it did not.
                code = f"{row.code}000" if len(str(row.code)) == 2 else row.code
                with self.failing_commit(code, happened=happened) as attempts:
                    self.write_once(f"{row.code} {happened}", attempts)
                self.assertEqual(1 if happened else 2, len(attempts), row)
        with db.read(self.ctx) as session:
            names = session.execute(sa.select(_projects.c.external_id)).scalars().all()
        self.assertEqual(len(set(names)), len(names))

    @db.retry_writes
    def _write(ctx, name, attempts):  # noqa: N805
        attempts.append(1)
        with db.write(ctx) as session:
            session.execute(sa.insert(_projects), {"external_id": name})
            session.record_change("trait", 1)

    def write_once(self, name, attempts):
        type(self)._write(self.ctx, name, attempts)

    def failing_commit(self, code, *, happened):
        """Let the server answer the next COMMIT with an error."""
        return _FailingCommit(self.database, code, happened=happened)


class _FailingCommit:
    """A COMMIT, as a cluster's node may do it: it happens, or not, and an error is sent."""

    def __init__(self, database, code, *, happened):
        self._dialect = database.writer.dialect
        self._code = code
        self._happened = happened
        self._commit = self._dialect.do_commit

    def __enter__(self):
        self._dialect.do_commit = self._fail
        return []

    def __exit__(self, *_anything):
        del self._dialect.do_commit

    def _fail(self, connection):
        self._dialect.do_commit = self._commit
        if self._happened:
            self._commit(connection)
        else:
            connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("SELECT send_error(%s)", (self._code,))


@databases.on_each_database
class TestSeen(base.DatabaseTestCase):
    """Servers come to send these by themselves."""

    def other(self, **settings):
        """Return a context on the same database with other bounds."""
        database = Database(
            dataclasses.replace(self.database.settings, retry_timeout_seconds=0, **settings),
            self.database.journal)
        self.addCleanup(database.dispose)
        return Context(database)

    def only(self, *kinds):
        if self.kind not in kinds:
            self.skipTest(f"{' and '.join(kinds)} only")

    def insert(self, ctx, name="one"):
        with db.write(ctx) as session:
            session.execute(sa.insert(_projects), {"external_id": name})
            session.record_change("trait", 1)

    def execute(self, statement, opened=db.write, ctx=None):
        with opened(ctx or self.ctx) as session:
            session.connection.exec_driver_sql(statement)

    def expect(self, kind, do, *arguments):
        error = self.assertRaises(errors.Error, do, *arguments)
        self.assertIs(kind, type(error), repr(error.__cause__))
        return error

    # Transactions that lost a race.

    def crossing(self, lock, *, inside=None):
        """Run two transactions that lock two rows in opposite order; return the attempts."""
        attempts = []
        both = threading.Barrier(2)

        @db.retry_writes
        def work(ctx, slots):
            again = slots in attempts
            attempts.append(slots)
            with db.write(ctx) as session:
                lock(session, slots[0])
                if not again:
                    both.wait(20)
                if inside is None:
                    lock(session, slots[1])
                else:
                    inside(session, lambda: lock(session, slots[1]))
                session.record_change("trait", 1)

        first, second = self.context(), self.context()
        self.assertEqual([None, None], races.run(
            lambda: work(first, (201, 202)), lambda: work(second, (202, 201))))
        return attempts

    @staticmethod
    def lock(session, slot):
        session.execute(sa.update(_heads).where(_heads.c.slot == slot).values(txn=slot))

    def test_deadlock(self):
        self.only("postgresql", "mysql")
        self.assertEqual(3, len(self.crossing(self.lock)))

    def test_deadlock_in_a_savepoint(self):
        self.only("postgresql", "mysql")

        def inside(session, lock):
            with session.connection.begin_nested():
                lock()

        self.assertEqual(3, len(self.crossing(self.lock, inside=inside)))

    def test_serialization_failure(self):
        self.only("postgresql", "sqlite")
        self.expect(failures.RolledBack, self.write_on_an_old_snapshot)

    def test_record_changed(self):
        self.only("mysql")
        self.skip_on_mysql("it has no innodb_snapshot_isolation, and sends no such error")
        self.expect(failures.RolledBack, self.write_on_an_old_snapshot)

    def write_on_an_old_snapshot(self):
        """Change a row that another transaction has changed since ours first looked."""
        with db.read(self.other()) as session:
            if self.kind == "mysql":
                session.connection.exec_driver_sql("SET innodb_snapshot_isolation = ON")
            session.execute(sa.select(_heads)).all()
            with db.write(self.ctx) as other:
                self.lock(other, 5)
            session.connection.exec_driver_sql("UPDATE change_heads SET txn = 7")

    def test_a_table_that_changed(self):
        self.only("mysql")
        self.execute("CREATE TABLE changing (id INTEGER)")
        self.addCleanup(self.execute, "DROP TABLE changing")

        def read():
            # A server that has put the table out of its cache since does not know that it
            # changed: with many tables that may happen now and then, not every time.
            for _ in range(5):
                with db.read(self.ctx) as session:
                    session.execute(sa.select(_projects)).all()
                    self.execute("ALTER TABLE changing FORCE", ctx=self.context())
                    session.connection.exec_driver_sql("SELECT * FROM changing")

        self.expect(failures.RolledBack, read)

    def test_a_widened_column(self):
        """A connection has statements whose result has another type since a schema change."""
        self.only("postgresql")
        self.execute("CREATE TABLE widened (name VARCHAR(32))")
        self.addCleanup(self.execute, "DROP TABLE widened")
        statement = sa.select(sa.table("widened", sa.column("name")))

        def read():
            with db.read_each(self.ctx) as session:
                for _ in range(10):  # psycopg prepares what comes again and again
                    session.execute(statement).all()
                self.execute(
                    "ALTER TABLE widened ALTER COLUMN name TYPE VARCHAR(255)", ctx=self.context())
                session.execute(statement).all()

        self.expect(failures.ConnectionLost, read)
        # Its connection is closed; another one knows nothing of the type before.
        with db.read_each(self.ctx) as session:
            self.assertEqual([], session.execute(statement).all())

    def test_a_failed_transaction(self):
        self.only("postgresql")

        def write():
            with db.write(self.ctx) as session:
                with contextlib.suppress(db_exception.DBError):
                    session.connection.exec_driver_sql("SELECT 1 / 0")
                session.execute(sa.select(_projects))

        self.expect(failures.RolledBack, write)

    # Connections that end.

    def kill(self, session):
        """Have another session end one."""
        number, end = {
            "postgresql": ("pg_backend_pid()", "SELECT pg_terminate_backend({})"),
            "mysql": ("CONNECTION_ID()", "KILL CONNECTION {}"),
        }[self.kind]
        number = session.connection.exec_driver_sql(f"SELECT {number}").scalar()
        self.execute(end.format(number), db.read_once, self.context())

    def test_a_killed_session(self):
        self.only("postgresql", "mysql")

        def write():
            with db.write(self.ctx) as session:
                self.kill(session)
                session.execute(sa.select(_projects)).all()

        self.expect(failures.ConnectionLost, write)

    def test_a_killed_query(self):
        self.only("mysql", "sqlite")

        def write():
            with db.write(self.ctx) as session:
                if self.kind == "mysql":
                    number = session.connection.exec_driver_sql(
                        "SELECT CONNECTION_ID()").scalar()
                    threading.Timer(0.5, self.execute, (
                        f"KILL QUERY {number}", db.read_once, self.context())).start()
                    session.connection.exec_driver_sql(
                        "SELECT COUNT(*) FROM information_schema.columns a, "
                        "information_schema.columns b, information_schema.columns c")
                else:
                    driver = session.connection.connection.dbapi_connection
                    threading.Timer(0.5, driver.interrupt).start()
                    session.connection.exec_driver_sql(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                        "SELECT COUNT(*) FROM n")

        self.expect(errors.Unavailable, write)

    def test_idle_in_transaction(self):
        self.only("postgresql", "mysql")
        self.skip_on_mysql("it does not bound idle transactions")
        ctx = self.other(idle_in_transaction_timeout_seconds=1)

        def think():
            with db.write(ctx) as session:
                session.execute(sa.insert(_projects), {"external_id": "one"})
                time.sleep(2)
                session.execute(sa.select(_projects))

        self.expect(failures.ConnectionLost, think)

    def test_idle_session(self):
        self.only("postgresql")

        def idle():
            with db.read_each(self.ctx) as session:
                session.connection.exec_driver_sql("SET idle_session_timeout = 200")
                time.sleep(0.6)
                session.execute(sa.select(_projects))

        self.expect(failures.ConnectionLost, idle)

    def test_no_such_database(self):
        url = self.database.url
        gone = f"{url.database}_gone" if self.kind != "sqlite" else f"{url.database}/gone"
        ctx = self.other(connection=url.set(database=gone).render_as_string(
            hide_password=False))
        expected = errors.Unavailable if self.kind == "sqlite" else failures.ConnectionLost
        self.expect(expected, self.insert, ctx)

    # What a server cannot do now.

    def test_lock_timeout(self):
        ctx = self.other(lock_timeout_seconds=1)
        with db.write(self.ctx) as session:
            session.execute(sa.update(_heads).values(txn=1))
            self.expect(errors.Unavailable, self.insert, ctx)

    def test_another_driver(self):
        """psycopg2 has another name for the code."""
        self.only("postgresql")
        url = self.database.url.set(drivername="postgresql+psycopg2")
        ctx = self.other(
            connection=url.render_as_string(hide_password=False), lock_timeout_seconds=1)
        with db.write(self.ctx) as session:
            session.execute(sa.update(_heads).values(txn=1))
            self.expect(errors.Unavailable, self.insert, ctx)
        self.insert(ctx)
        error = self.assertRaises(db_exception.DBDuplicateEntry, self.insert, ctx)
        self.assertEqual(["external_id"], error.columns)
        with self.database.autocommit.connect() as connection:
            connection.exec_driver_sql(
                "SELECT setval('projects_id_seq', (SELECT id FROM projects), false)")
        log = self.useFixture(fixtures.FakeLogger())
        self.assertRaises(sequences.SequenceBehind, self.insert, ctx, "another")
        self.assertIn("sequence of table projects", log.output)

    def test_statement_timeout(self):
        self.only("postgresql", "mysql")
        self.insert(self.ctx)
        slow = {"postgresql": "SELECT pg_sleep(5)", "mysql": "SELECT SLEEP(5) FROM projects"}
        ctx = self.other(statement_timeout_seconds=1)
        self.expect(errors.Unavailable, self.execute, slow[self.kind], db.write, ctx)

    def test_read_only(self):
        """A server that takes no writes any more; the next connection may lead to another."""
        if self.kind == "sqlite":
            driver_connections = []

            @sa.event.listens_for(self.database.writer, "connect")
            def note(connection, _record):
                driver_connections.append(connection)

            self.database.dispose()
            with db.write(self.ctx) as session:
                session.connection.exec_driver_sql("SELECT 1")
            driver_connections[0].execute("PRAGMA query_only = ON")
        elif self.kind == "postgresql":
            with db.write(self.ctx) as session:
                session.connection.exec_driver_sql(
                    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        else:
            with db.write(self.ctx) as session:
                session.connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        self.expect(failures.ReadOnly, self.insert, self.ctx)
        self.insert(self.ctx)

    def test_a_full_file(self):
        self.only("sqlite")

        def write():
            with db.write(self.ctx) as session:
                pages = session.connection.exec_driver_sql("PRAGMA page_count").scalar()
                session.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
                for number in range(20000):
                    session.execute(sa.insert(_projects), {"external_id": f"{number}" * 20})

        self.expect(errors.Unavailable, write)

    def test_a_corrupt_file(self):
        self.only("sqlite")
        for damage in (b"not a database" * 100, None):
            path = pathlib.Path(self.database.url.database)
            self.database.dispose()
            with sqlite3.connect(path) as plain:
                plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            plain.close()
            whole = path.read_bytes()
            with path.open("r+b") as file:
                if damage is None:
                    file.seek(4096)
                    file.write(os.urandom(len(whole) - 4096))
                else:
                    file.write(damage)
            self.expect(errors.Unavailable, self.insert, self.ctx)
            self.database.dispose()
            path.write_bytes(whole)

    # What no row can hold.

    def test_values(self):
        update = sa.update(_heads).where(_heads.c.slot == 0).values(txn=sa.bindparam("new"))

        def write():
            with db.write(self.ctx) as session:
                session.execute(update, {"new": 2**63 if self.kind != "sqlite" else 2**70})

        self.expect(errors.Invalid, write)
        if self.kind != "sqlite":
            self.expect(errors.Invalid, self.insert, self.ctx, "a" * 256)

    # What the rows that are there refuse. Servers say so in the language of their machine.

    def german(self):
        """Return a context whose server sends its texts in German, where it knows any."""
        ctx = self.other()
        language = "de_DE" if self.kind == "mysql" else "de_DE.UTF-8"

        @sa.event.listens_for(ctx.database.writer, "connect")
        def set_language(connection, _record):
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"SET lc_messages = '{language}'")
                connection.commit()
            except ctx.database.writer.dialect.loaded_dbapi.Error:
                connection.rollback()

        return ctx

    def test_a_duplicate_key(self):
        self.only("postgresql", "mysql")
        for name in ("one", "it's 'one' of 'uuid'"):
            for ctx in (self.ctx, self.german()):
                with contextlib.suppress(db_exception.DBDuplicateEntry):
                    self.insert(ctx, name)
                error = self.assertRaises(db_exception.DBDuplicateEntry, self.insert, ctx, name)
                self.assertEqual(["external_id"], error.columns)

    def test_a_missing_reference(self):
        self.only("postgresql", "mysql")
        for ctx in (self.ctx, self.german()):
            self.assertRaises(db_exception.DBReferenceError, self.map_instance, ctx, 2**31 - 1)

    def test_a_row_that_is_referred_to(self):
        self.only("postgresql", "mysql")

        def delete(ctx):
            with db.write(ctx) as session:
                session.execute(sa.delete(_cells))

        with db.write(self.ctx) as session:
            [cell_id] = session.execute(sa.insert(_cells), {
                "uuid": "1", "transport_url": "", "database_connection": ""}).inserted_primary_key
        self.map_instance(self.ctx, cell_id)
        for ctx in (self.ctx, self.german()):
            self.assertRaises(db_exception.DBReferenceError, delete, ctx)

    @staticmethod
    def map_instance(ctx, cell_id):
        with db.write(ctx) as session:
            session.execute(sa.insert(_instances), {
                "instance_uuid": "1", "project_id": "one", "cell_id": cell_id})
