"""``db sync`` on new databases, and the schema it makes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable

import fixtures
import sqlalchemy as sa
import testtools
from alembic import autogenerate, migration
from testtools import matchers

from placement_core.db import metadata
from placement_core.db.database import Settings
from placement_core.migrations import (
    adoption,
    checks,
    compatibility,
    exclusive,
    revisions,
    schema,
    sync,
    upgrades,
)
from tests import base, databases
from tests.functional.migrations import bare


def differences(url: str) -> list[object]:
    """Return what Alembic would change to make the database equal our tables."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = migration.MigrationContext.configure(
            connection,
            opts={
                "version_table": revisions.VERSION_TABLE,
                "include_name": upgrades.is_ours,
                "compare_type": True,
                "compare_server_default": True,
            },
        )
        return list(autogenerate.compare_metadata(context, metadata))


class BareTestCase(base.TestCase):
    """A test that starts with a database without tables."""

    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.url = bare.database(self.kind, self.addCleanup)
        self.settings = Settings(self.url, lock_timeout_seconds=3, sqlite_synchronous=False)

    def connect(self) -> sa.Connection:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        connection = engine.connect()
        self.addCleanup(connection.close)
        return connection

    def rows(self, table: str) -> list[tuple[object, ...]]:
        with sa.create_engine(self.url, poolclass=sa.NullPool).connect() as connection:
            return [tuple(row) for row in connection.execute(
                sa.text(f"SELECT * FROM {table} ORDER BY 1, 2, 3"))]

    def run_sql(self, *statements: str) -> None:
        with sa.create_engine(self.url, poolclass=sa.NullPool).begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))


@databases.on_each_database
class TestNewDatabase(BareTestCase):
    def test_makes_the_tables_of_the_rooms(self) -> None:
        self.assertIsNone(sync.version(self.settings))
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual(revisions.head(), sync.version(self.settings))
        self.assertEqual([], differences(self.url))
        self.assertEqual(256, len(self.rows("change_heads")))
        self.assertIn("VCPU", [row[3] for row in self.rows("resource_classes")])

    def test_twice_changes_nothing(self) -> None:
        sync.sync(self.settings)
        before = self.rows("traits")
        lines: list[str] = []
        sync.sync(self.settings, lines.append)
        self.assertEqual([f"the schema is at {revisions.head()} already"], lines)
        self.assertEqual(before, self.rows("traits"))

    def test_schema_create_makes_the_same(self) -> None:
        schema.create(self.url)
        self.assertEqual([], differences(self.url))
        self.assertEqual(revisions.head(), sync.version(self.settings))

    def test_four_at_once(self) -> None:
        failures: list[BaseException] = []

        def run() -> None:
            try:
                sync.sync(Settings(self.url, lock_timeout_seconds=60, sqlite_synchronous=False))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual([], differences(self.url))

    def test_it_is_committed_before_the_next_one_begins(self) -> None:
        """On MySQL, the lock is not the transaction's."""
        seen: list[str | None] = []

        def look(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if "release_lock" in statement:
                seen.append(sync.version(self.settings))

        sa.event.listen(sa.Engine, "before_cursor_execute", look)
        self.addCleanup(sa.event.remove, sa.Engine, "before_cursor_execute", look)
        sync.sync(self.settings)
        self.assertEqual([revisions.head()] if self.kind == "mysql" else [], seen)

    def test_a_newer_schema_is_left_alone(self) -> None:
        sync.sync(self.settings)
        self.run_sql(f"UPDATE {revisions.VERSION_TABLE} SET version_num = '9999'")
        for function in (sync.sync, sync.release):
            with testtools.ExpectedException(compatibility.SchemaError, ".*9999.*newer version.*"):
                function(self.settings)
        self.assertTrue(checks.read_state(self.settings).newer)

    def test_somebody_else_just_makes_it(self) -> None:
        """SQLite would refuse at once while another is about to write to a new file."""
        if self.kind != "sqlite":
            self.skipTest("others have no file")
        other = sqlite3.connect(
            self.connect().engine.url.database, isolation_level=None, check_same_thread=False)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.5, other.execute, ["COMMIT"])
        timer.start()
        self.addCleanup(timer.join)
        self.assertEqual(revisions.head(), sync.sync(self.settings))

    def test_waits_no_longer_than_told(self) -> None:
        sync.sync(self.settings)
        impatient = Settings(self.url, lock_timeout_seconds=1, sqlite_synchronous=False)
        with exclusive.transaction(self.settings):
            self.assertRaises(exclusive.Busy, sync.sync, impatient)
        sync.sync(impatient)

    def test_the_lock_of_a_long_name(self) -> None:
        """MySQL refuses a lock whose name has more than 64 characters."""
        if self.kind != "mysql":
            self.skipTest("others have no lock with a name")
        url = sa.make_url(self.url)
        lengths = []
        for letter in "ab":
            name = f"{url.database}_".ljust(64, letter)
            databases.administer(url, f"CREATE DATABASE {name}")
            self.addCleanup(databases.administer, url, f"DROP DATABASE {name}")
            settings = Settings(url.set(database=name).render_as_string(hide_password=False),
                                lock_timeout_seconds=1)
            with exclusive.transaction(settings) as connection:
                lengths.append(connection.scalar(sa.select(
                    sa.func.char_length(exclusive.LOCK_NAME))))
                self.assertRaises(exclusive.Busy, sync.sync, settings)
                sync.sync(self.settings)
        self.assertEqual([60, 60], lengths)

    def test_service_asks_for_the_newest(self) -> None:
        with exclusive.database(self.settings) as database:
            with testtools.ExpectedException(
                    compatibility.SchemaError, ".*none.*placement-core db sync.*"):
                compatibility.require_newest(database)
            sync.sync(self.settings)
            compatibility.require_newest(database)

    def test_worker_starts_with_one_that_is_not_older(self) -> None:
        """The next release may be on its way while a worker is started again."""
        with exclusive.database(self.settings) as database:
            self.assertRaises(compatibility.SchemaError, compatibility.require_usable, database)
            sync.sync(self.settings)
            log = self.useFixture(fixtures.FakeLogger("placement_core.migrations.compatibility"))
            compatibility.require_usable(database)
            self.assertEqual("", log.output)
            for revision, is_usable in (("9999", True), ("0001", False)):
                self.run_sql(
                    f"UPDATE {revisions.VERSION_TABLE} SET version_num = '{revision}'")
                if is_usable:
                    compatibility.require_usable(database)
                else:
                    self.assertRaises(
                        compatibility.SchemaError, compatibility.require_usable, database)
            self.assertIn("9999, of a later version", log.output)

    def test_tables_without_a_revision_are_refused(self) -> None:
        self.run_sql("CREATE TABLE resource_providers (id INTEGER PRIMARY KEY)")
        error = self.assertRaises(adoption.NotAdoptable, sync.sync, self.settings)
        self.assertThat(str(error), matchers.Contains("names no revision in alembic_version"))

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind when a sync dies: tables, but no revision."""
        sync.sync(self.settings)
        self.run_sql(
            f"DELETE FROM {revisions.VERSION_TABLE}",
            "DROP TABLE consumers",
            "DROP TABLE changes",
            "DELETE FROM change_heads WHERE slot > 7",
        )
        sync.sync(self.settings)
        self.assertEqual([], differences(self.url))
        self.assertEqual(256, len(self.rows("change_heads")))


@databases.on_each_database
class TestErrorsOfServers(BareTestCase):
    """Their codes say what they are; their texts are in the language of the machine."""

    def setUp(self) -> None:
        if self.kind == "sqlite":
            self.skipTest("SQLite has no server that could be told to send an error")
        super().setUp()

    def send(self, connection: sa.Connection, state: str, number: int) -> None:
        """Have the server send an error: that with PostgreSQL's state, or MySQL's number."""
        connection.exec_driver_sql({
            "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'sent' "
                          f"USING ERRCODE = '{state}'; END $$",
            "mysql": f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, "
                     "MESSAGE_TEXT = 'sent'"}[self.kind])

    def test_the_step_begins_again(self) -> None:
        for code in (("55P03", 1205), ("40P01", 1213)):
            lines: list[str] = []
            codes = [code]

            def sync_once(
                connection: sa.Connection, *_: object, codes: list[tuple[str, int]] = codes
            ) -> str:
                if codes:
                    self.send(connection, *codes.pop())
                return "synced"

            with fixtures.MockPatchObject(sync, "_sync", sync_once):
                self.assertEqual("synced", sync.sync(self.settings, lines.append))
            self.assertIn("begins again", " ".join(lines))

    def test_no_longer_than_told(self) -> None:
        def sync_once(connection: sa.Connection, *_: object) -> str:
            self.send(connection, "55P03", 1205)
            return "synced"

        self.useFixture(fixtures.MockPatchObject(sync, "_sync", sync_once))
        for seconds in (1, 3):
            began = time.monotonic()
            error = self.assertRaises(
                exclusive.Busy, sync.sync, Settings(self.url, lock_timeout_seconds=seconds))
            self.assertIn(f"in the way for {seconds} seconds", str(error))
            self.assertGreaterEqual(time.monotonic() - began, seconds - 2)


@databases.on_each_database
class TestRunningService(BareTestCase):
    """A service locks tables and rows in another order than the revisions do."""

    def setUp(self) -> None:
        if self.kind == "sqlite":
            self.skipTest("a file has a single lock")
        super().setUp()
        sync.sync(self.settings)
        self.run_sql(
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0014'",
            "ALTER TABLE changes DROP COLUMN project",
            "ALTER TABLE allocations DROP COLUMN started_at")
        self.said: list[str] = []
        self.failures: list[BaseException] = []

    def start(self, function: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                function()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def sync(self) -> None:
        sync.sync(Settings(self.url, lock_timeout_seconds=120), self.said.append)

    def wait_for_sync(
        self, syncing: threading.Thread, service: sa.Connection, table: str = "allocations"
    ) -> None:
        """Wait until a sync waits for a table that a service uses."""
        query = {
            "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted "
                          f"AND relation = '{table}'::regclass",
            "mysql": "SELECT count(*) FROM information_schema.processlist "
                     f"WHERE info LIKE 'ALTER TABLE {table} %' AND time_ms > 100"}[self.kind]
        while syncing.is_alive() and not service.scalar(sa.text(query)):
            time.sleep(0.02)

    def test_they_wait_for_each_other(self) -> None:
        """On PostgreSQL, which tells one of the two."""
        if self.kind != "postgresql":
            self.skipTest("an ALTER TABLE of others holds one table only")
        syncing = self.start(self.sync)
        service = self.connect()
        service.execute(sa.text("SET deadlock_timeout = '30s'"))  # the sync is the victim
        service.execute(sa.text("LOCK TABLE allocations IN ROW EXCLUSIVE MODE"))
        self.wait_for_sync(syncing, service)
        service.execute(sa.text("LOCK TABLE changes IN ROW EXCLUSIVE MODE"))
        service.commit()
        syncing.join()
        self.assert_synced()
        self.assertIn("begins again", " ".join(self.said))

    def test_a_circle_that_mariadb_does_not_see(self) -> None:
        """One waits for a row; who has the row waits for a table, which the first uses.

        Without the sync, the second would not wait: readers do not wait for readers.
        """
        holder, waiter = self.connect_patient(), self.connect_patient()
        row = sa.text("UPDATE change_heads SET txn = txn WHERE slot = 1")
        holder.execute(row)
        waiter.execute(sa.text("SELECT count(*) FROM allocations"))
        waiting = self.start(lambda: (waiter.execute(row), waiter.commit()))
        syncing = self.start(self.sync)
        self.wait_for_sync(syncing, self.connect())
        began = time.monotonic()
        holder.execute(sa.text("SELECT count(*) FROM allocations"))
        self.assertLess(time.monotonic() - began, 60)
        holder.commit()
        waiting.join()
        syncing.join()
        self.assert_synced()
        if self.kind == "mysql":  # PostgreSQL may let the second one pass
            self.assertIn("begins again", " ".join(self.said))

    def test_a_foreign_key(self) -> None:
        """MariaDB locks the tables that refer to the one it changes, after that one."""
        service = self.connect_patient()
        service.execute(sa.text("UPDATE consumers SET generation = generation"))
        statement = "ALTER TABLE consumer_types ADD COLUMN more INTEGER"
        syncing = self.start(lambda: exclusive.run(
            Settings(self.url, lock_timeout_seconds=120),
            lambda connection: connection.exec_driver_sql(statement), self.said.append))
        if self.kind == "mysql":  # elsewhere, nobody waits
            self.wait_for_sync(syncing, self.connect(), "consumer_types")
        began = time.monotonic()
        service.execute(sa.text("SELECT count(*) FROM consumer_types"))
        self.assertLess(time.monotonic() - began, 60)
        service.commit()
        syncing.join()
        self.assertEqual([], self.failures)
        if self.kind == "mysql":
            self.assertIn("begins again", " ".join(self.said))

    def connect_patient(self) -> sa.Connection:
        connection = self.connect()
        if self.kind == "mysql":
            connection.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 300, "
                                       "SESSION lock_wait_timeout = 300"))
        return connection

    def assert_synced(self) -> None:
        self.assertEqual([], self.failures)
        self.assertEqual([], differences(self.url))
