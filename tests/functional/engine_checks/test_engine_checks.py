"""The checks pass on the engines that we support, and fail where one breaks the contract."""

from __future__ import annotations

import dataclasses
import pathlib
import time

import fixtures
import sqlalchemy as sa
from pymysql.constants import CLIENT

from placement_core.db import engines, pymysql_connections
from placement_core.db.database import Database
from placement_core.engine_checks import checks, runner, server, tables, trial, values
from placement_core.engine_checks.checks import Check
from placement_core.engine_checks.results import Result, Status
from tests import base, databases


class TestTable(base.TestCase):
    def test_each_check_has_a_name_and_a_sentence(self):
        names = [check.name for check in checks.CHECKS]
        self.assertEqual(len(names), len(set(names)))
        for check in checks.CHECKS:
            self.assertRegex(check.rule, "^[A-Z].*[^.]$", check.name)
            # The sentence is not cut off.
            self.assertIn(f"{check.rule}.", check.function.__doc__)


class CheckCase(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.settings = self.database.settings

    def list_names(self) -> set[str]:
        """Return all that a run could leave behind."""
        with self.database.autocommit.connect() as connection:
            names = set(sa.inspect(connection).get_table_names())
            if self.kind == "postgresql":
                names |= set(connection.scalars(sa.text(
                    "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")))
            elif self.kind == "mysql":
                names |= set(connection.scalars(sa.text(
                    "SELECT trigger_name FROM information_schema.triggers "
                    "WHERE trigger_schema = DATABASE()")))
            else:
                folder = pathlib.Path(self.database.url.database).parent
                names |= {path.name for path in folder.iterdir()
                          if not path.name.endswith(("-wal", "-shm"))}
        return names

    def check(self, name: str, **changes: object) -> Result:
        """Run one check, with other settings; return its result."""
        [check] = [check for check in checks.CHECKS if check.name == name]
        _, [result] = runner.run(
            dataclasses.replace(self.settings, **changes), [check])
        return result

    def require_failure(self, name: str, *texts: str, **changes: object) -> None:
        result = self.check(name, **changes)
        self.assertIs(Status.FAILED, result.status, result)
        for text in ("expected", "seen", *texts):
            self.assertIn(text, result.details)

    def only(self, *kinds: str) -> None:
        if self.kind not in kinds:
            self.skipTest(f"{' and '.join(kinds)} only")

    def patch_database(self, change) -> None:
        """Let the checks work on a database that ``change`` has changed."""
        class Changed(Database):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                change(self)

        self.useFixture(fixtures.MonkeyPatch(f"{trial.__name__}.Database", Changed))

    def set_variables(self, values: dict[str, int]) -> None:
        """Let the MySQL server have other global variables, which all who use it would share."""
        def replace(_connection, _cursor, statement, parameters, _context, _executemany):
            for name, value in values.items():
                statement = statement.replace(f"@@{name}", str(value))
            return statement, parameters

        self.patch_database(lambda database: sa.event.listen(
            database.writer, "before_cursor_execute", replace, retval=True))

    def set_for_database(self, setting: str, value: str) -> None:
        """Set something for new connections to the PostgreSQL database of this test."""
        url = self.database.url
        administer = databases.administer
        administer(url, f"ALTER DATABASE {url.database} SET {setting} = {value}")
        self.addCleanup(administer, url, f"ALTER DATABASE {url.database} RESET {setting}")


@databases.on_each_database
class TestSupported(CheckCase):
    def is_durable(self) -> bool:
        """Say whether the test's database survives a crash: those of the CI need not."""
        if self.kind == "sqlite":
            return self.settings.sqlite_synchronous
        select, durable = {
            "postgresql": ("SHOW fsync", "on"),
            "mysql": ("SELECT @@innodb_flush_log_at_trx_commit", 1)}[self.kind]
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.text(select)) == durable

    def test_all_checks(self):
        before = self.list_names()
        reported = []
        engine, results = runner.run(self.settings, checks.CHECKS, reported.append)
        self.assertRegex(engine, r"^(SQLite|PostgreSQL|MariaDB|MySQL) [0-9]+\.[0-9]+")
        self.assertEqual(reported, results)
        # MariaDB compares names as if they were padded with blanks.
        limited = {"trailing blanks"} if self.kind == "mysql" else set()
        # MySQL bounds no idle transactions.
        limited |= {"idle transactions"} if engine.startswith("MySQL") else set()
        limited |= set() if self.is_durable() else {"durable commits"}
        self.assertEqual(
            {check.name: Status.WARNING if check.name in limited else Status.OK
             for check in checks.CHECKS if self.kind in check.dialects},
            {result.name: result.status for result in results},
            "\n".join(map(str, results)))
        self.assertEqual(before, self.list_names())

    def test_nothing_is_left_after_an_error(self):
        before = self.list_names()
        seen = []

        def interrupt(run):
            seen.extend(self.list_names())
            run.insert("one")
            raise KeyboardInterrupt

        self.assertRaises(
            KeyboardInterrupt, runner.run, self.settings, [Check("a check", interrupt)])
        made = [name for name in seen if tables.PREFIX in name]
        self.assertEqual(1 if self.kind == "sqlite" else 5, len(made), made)
        self.assertEqual(before, self.list_names())

    def test_an_unexpected_error_fails_one_check(self):
        def fail(run):
            with run.database.connection(run.database.writer) as connection:
                connection.exec_driver_sql("SELECT nonsense")

        before = self.list_names()
        wrong = Check("wrong", fail)
        right = Check("right", server.version_is_known)
        _, results = runner.run(self.settings, [wrong, right])
        self.assertEqual([Status.FAILED, Status.OK], [result.status for result in results])
        self.assertIn("nonsense", results[0].details)
        self.assertEqual(before, self.list_names())


@databases.on_each_database
class TestBroken(CheckCase):
    """Each of these engines breaks the contract in one way."""

    def test_writers_with_a_snapshot(self):
        self.only("postgresql", "mysql")

        def change(database):
            database.writer = database.writer.execution_options(isolation_level="REPEATABLE READ")

        self.patch_database(change)
        self.require_failure("reads under a lock")

    def test_readers_without_a_snapshot(self):
        def change(database):
            database.snapshot = database.autocommit

        self.patch_database(change)
        self.require_failure("snapshots", "[(0, 1), (0, 1)]", "[(0, 1), (1, 2)]")

    def test_writers_that_commit_each_statement(self):
        def change(database):
            database.writer = database.autocommit

        self.patch_database(change)
        self.require_failure("rollback", "(1, 2)")
        self.require_failure("updates wait", "waits")

    def test_a_slow_link(self):
        """What has not been sent yet does not count as waiting."""
        def change(database):
            database.writer = database.autocommit
            sa.event.listen(database.writer.pool, "connect", lambda *_: time.sleep(0.4))

        self.patch_database(change)
        self.require_failure("updates wait", "waits")

    def test_readers_of_what_is_not_committed(self):
        self.only("mysql")

        def change(database):
            database.snapshot = database.autocommit = database.snapshot.execution_options(
                isolation_level="READ UNCOMMITTED")

        self.patch_database(change)
        self.require_failure("uncommitted rows")

    def test_counts_of_changed_rows(self):
        self.only("mysql")

        class CountsChanged(pymysql_connections.SharedContextConnection):
            def __init__(self, *args, client_flag=0, **options):
                super().__init__(
                    *args, client_flag=client_flag & ~CLIENT.FOUND_ROWS, **options)

        self.useFixture(fixtures.MonkeyPatch(
            f"{pymysql_connections.__name__}.SharedContextConnection", CountsChanged))
        self.require_failure("count of updates", "[2, 2, 0]", "[0, 2, 0]")

    def test_a_lax_mode(self):
        self.only("mysql")
        self.require_failure("bad values", mysql_sql_mode="NO_ENGINE_SUBSTITUTION")

    def test_foreign_keys_that_are_not_enforced(self):
        self.only("postgresql", "mysql")
        if self.kind == "postgresql":
            self.set_for_database("session_replication_role", "replica")
            self.require_failure("triggers", "a write without the mark")
            self.require_failure("foreign keys", "it passed")
        else:
            url = self.database.url.update_query_dict(
                {"init_command": "SET foreign_key_checks = 0"})
            self.require_failure("foreign keys", "it passed",
                                 connection=url.render_as_string(hide_password=False))

    def test_a_small_character_set(self):
        self.only("postgresql")
        url = self.database.url
        name = f"{url.database}_latin"
        databases.administer(
            url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} TEMPLATE template0 "
            "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
        self.addCleanup(databases.administer, url, f"DROP DATABASE IF EXISTS {name}")
        connection = url.set(database=name).render_as_string(hide_password=False)
        self.require_failure("wide characters", connection=connection)

    def test_other_tables(self):
        self.only("mysql")
        for name, options in (
            ("names", {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4",
                       "mysql_collate": "utf8mb4_general_ci"}),
            # Its keys are short: 255 characters of MySQL's default character set do not fit.
            ("storage engine", {"mysql_engine": "MyISAM", "mysql_charset": "latin1"}),
        ):
            self.useFixture(fixtures.MonkeyPatch(f"{tables.__name__}.MYSQL_OPTIONS", options))
            self.require_failure(name)

    def test_an_old_version(self):
        self.useFixture(fixtures.MonkeyPatch(f"{engines.__name__}.OLDEST", dict.fromkeys(
            ("SQLite", "PostgreSQL", "MariaDB", "MySQL"), (99, 1))))
        self.require_failure("version", "99.1 or newer")

    def test_a_clock_in_another_zone(self):
        utcnow = values.utcnow
        for minutes, status in ((60, Status.FAILED), (1, Status.WARNING)):
            self.useFixture(fixtures.MonkeyPatch(
                f"{values.__name__}.utcnow",
                lambda minutes=minutes: utcnow() + values.datetime.timedelta(minutes=minutes)))
            self.assertIs(status, self.check("clock").status)


@databases.on_each_database
class TestLimited(CheckCase):
    """Each of these engines works, with a limitation."""

    def require_warning(self, name: str, text: str, **changes: object) -> None:
        result = self.check(name, **changes)
        self.assertIs(Status.WARNING, result.status, result)
        self.assertIn(text, result.details)

    def test_commits_that_a_crash_may_lose(self):
        self.only("sqlite", "postgresql")
        if self.kind == "postgresql":
            self.set_for_database("synchronous_commit", "off")
            self.require_warning("durable commits", "synchronous_commit is off: a crash")
        else:
            self.require_warning("durable commits", "a crash", sqlite_synchronous=False)
            self.assertIs(
                Status.OK, self.check("durable commits", sqlite_synchronous=True).status)

    def test_a_binary_log_that_a_crash_may_cut(self):
        """InnoDB relies on the log: what that lacks after a crash is rolled back."""
        self.only("mysql")
        for log_bin, flush, sync, status in (
                (1, 1, 0, Status.WARNING), (1, 1, 100, Status.WARNING), (1, 1, 1, Status.OK),
                (1, 3, 0, Status.OK), (0, 1, 0, Status.OK)):
            self.set_variables({
                "log_bin": log_bin, "innodb_flush_log_at_trx_commit": flush, "sync_binlog": sync,
                "innodb_doublewrite": 1})
            result = self.check("durable commits")
            self.assertIs(status, result.status, result)
            if status is Status.WARNING:
                self.assertIn(f"sync_binlog is {sync}: a crash", result.details)

    def test_no_triggers(self):
        self.only("mysql")
        url, user, password = self.database.url, f"{self.database.url.database}_u", "dont-show"
        databases.administer(
            url, f"DROP USER IF EXISTS {user}",
            f"CREATE USER {user} IDENTIFIED BY '{password}'",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX "
            f"ON {url.database}.* TO {user}")
        self.addCleanup(databases.administer, url, f"DROP USER {user}")
        before = self.list_names()
        connection = url.set(username=user, password=password).render_as_string(
            hide_password=False)
        self.require_warning("triggers", "does not let us make triggers", connection=connection)
        self.assertNotIn(password, str(self.check("triggers", connection=connection)))
        self.assertEqual(before, self.list_names())
