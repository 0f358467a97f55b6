"""``db sync`` on new databases, and the schema it makes."""

from __future__ import annotations

import sqlite3
import threading
import time

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

    def test_a_lock_timeout(self) -> None:
        def work() -> None:
            with exclusive.transaction(self.settings) as connection:
                self.send(connection, "55P03", 1205)

        self.assertRaises(exclusive.Busy, work)

    def test_a_deadlock(self) -> None:
        lines: list[str] = []
        codes = [("40P01", 1213)]

        def sync_once(connection: sa.Connection, *_: object) -> str:
            if codes:
                self.send(connection, *codes.pop())
            return "synced"

        self.useFixture(fixtures.MockPatchObject(sync, "_sync", sync_once))
        self.assertEqual("synced", sync.sync(self.settings, lines.append))
        self.assertIn("begins again", " ".join(lines))


class TestDeadlock(BareTestCase):
    """A running service locks tables in another order than the revisions."""

    kind = "postgresql"

    def setUp(self) -> None:
        if self.kind not in databases.KINDS:
            self.skipTest("There is no PostgreSQL.")
        super().setUp()

    def test_the_step_begins_again(self) -> None:
        sync.sync(self.settings)
        self.run_sql(
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0014'",
            "ALTER TABLE changes DROP COLUMN project",
            "ALTER TABLE allocations DROP COLUMN started_at")
        said: list[str] = []
        syncing = threading.Thread(target=lambda: sync.sync(self.settings, said.append))
        service = self.connect()
        service.execute(sa.text("SET deadlock_timeout = '30s'"))  # the sync is the victim
        service.execute(sa.text("LOCK TABLE allocations IN ROW EXCLUSIVE MODE"))
        syncing.start()
        waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted "
                        "AND relation = 'allocations'::regclass")
        while syncing.is_alive() and not service.scalar(waits):
            time.sleep(0.02)
        service.execute(sa.text("LOCK TABLE changes IN ROW EXCLUSIVE MODE"))
        service.commit()
        syncing.join()
        self.assertIn("begins again", " ".join(said))
        self.assertEqual([], differences(self.url))
