"""Starting the service: from options, inside another application, from a WSGI server."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

import fixtures
import sqlalchemy as sa
import webob
from oslo_config import cfg

from placement_core import app, configured_database, errors, services, wsgi
from placement_core.db import failures
from placement_core.db.database import Database
from placement_core.http.operations import Operation, Reply
from placement_core.http.placement_api import policies
from placement_core.migrations import compatibility, exclusive, revisions, sync
from placement_core.placement import standard, tables
from tests import base as tests_base, databases
from tests.http import base
from tests.http.placement_api.pipeline_cases import OPERATIONS, table

T = TypeVar("T")


class TestStart(tests_base.TestCase):
    def configuration(self, **options: object) -> object:
        return base.configuration(
            f"sqlite:///{self.useFixture(fixtures.TempDir()).path}/new.sqlite",
            {("placement_database", name): value for name, value in options.items()})

    def test_sync_on_startup(self) -> None:
        conf = self.configuration(sync_on_startup=True)
        for _ in range(2):
            served = app.make_app(conf)
            response = webob.Request.blank("/").get_response(served)
            self.assertEqual(200, response.status_int)

    def test_sync_on_startup_while_the_next_release_is_rolled_out(self) -> None:
        """A worker takes the place of one that died, and its schema is newer than its code."""
        conf = self.configuration(sync_on_startup=True)
        app.make_app(conf)
        settings = configured_database.make_settings(conf)
        with exclusive.transaction(settings) as connection:
            connection.execute(sa.text(
                f"UPDATE {revisions.VERSION_TABLE} SET version_num = '9999'"))
        with self.assertLogs("placement_core.migrations.compatibility", "WARNING") as logs:
            served = app.make_app(conf)
        self.assertIn("9999, of a later version", logs.output[0])
        self.assertEqual(200, webob.Request.blank("/").get_response(served).status_int)
        self.assertEqual("9999", sync.version(settings))

    def test_sync_on_startup_while_another_sync_runs(self) -> None:
        """A worker whose schema is that of its code does not wait for it."""
        conf = self.configuration(sync_on_startup=True)
        app.make_app(conf)
        self.useFixture(fixtures.MockPatch(
            "placement_core.migrations.sync.sync", side_effect=exclusive.Busy("by the test")))
        app.make_app(conf)

    def test_a_connection_is_lost_meanwhile(self) -> None:
        """As a worker's that starts while others are: it does not die of that."""
        conf = self.configuration(sync_on_startup=True)
        app.make_app(conf)
        read_status, losses = compatibility.read_status, [failures.ConnectionLost()]

        def lose_one(database: Database) -> compatibility.SchemaStatus:
            if losses:
                raise losses.pop()
            return read_status(database)

        self.useFixture(fixtures.MockPatchObject(compatibility, "read_status", lose_one))
        served = app.make_app(conf)
        self.assertEqual([], losses)
        self.assertEqual(200, webob.Request.blank("/").get_response(served).status_int)

    def test_no_schema(self) -> None:
        self.assertRaisesRegex(
            errors.ConfigurationError, "db sync", app.make_app, self.configuration())

    def test_database_does_not_answer(self) -> None:
        conf = base.configuration("postgresql://user:secret@127.0.0.1:9/placement", {
            ("placement_database", "max_retries"): 1,
            ("placement_database", "retry_interval"): 0})
        error = self.assertRaises(errors.ConfigurationError, app.make_app, conf)
        self.assertIn("does not answer", str(error))
        self.assertNotIn("secret", str(error))
        self.assertNotIn("\n", str(error))

    def test_a_failure_leaves_no_connection(self) -> None:
        """A host may try again for each request."""
        made = self.record_databases(lambda database: database)
        self.assertRaises(errors.ConfigurationError, app.make_app, self.configuration())
        self.assertEqual(0, made[0].count_connections()["snapshot", "idle"])

    def test_a_failure_leaves_nothing_in_memory(self) -> None:
        made = self.record_databases(weakref.ref)
        self.assertRaises(errors.ConfigurationError, app.make_app, self.configuration())
        self.assert_collected(made[0])

    def test_a_check_leaves_nothing_in_memory(self) -> None:
        """``serve`` checks its configuration at each SIGHUP."""
        made = self.record_databases(weakref.ref)
        app.check_configuration(self.configuration())
        self.assert_collected(made[0])

    def assert_collected(self, reference: weakref.ref[Database]) -> None:
        """Expect that nobody has a database any more.

        The thread that looks after all databases of this process has it while it does.
        """
        for _ in range(100):
            gc.collect()
            if reference() is None:
                return
            time.sleep(0.1)
        self.fail(f"somebody has the database: {gc.get_referrers(reference())}")

    def record_databases(self, record: Callable[[Database], T]) -> list[T]:
        """Return what will be recorded of the database of each service that is built."""
        recorded: list[T] = []
        build = services.build

        def build_and_record(conf: cfg.ConfigOpts) -> services.Services:
            parts = build(conf)
            recorded.append(record(parts.database))
            return parts

        self.useFixture(fixtures.MonkeyPatch("placement_core.services.build", build_and_record))
        return recorded

    def test_one_line_says_what_runs(self) -> None:
        conf = base.configuration(databases.settings("sqlite").connection)
        with self.assertLogs("placement_core.app", "INFO") as logs:
            app.make_app(conf)
        self.assertIn("sqlite:///", logs.output[-1])

    def test_proxy_headers(self) -> None:
        conf = base.configuration(databases.settings("sqlite").connection, {
            ("oslo_middleware", "enable_proxy_headers_parsing"): True})
        create = Operation(
            "POST", "/a", lambda call: Reply(status=201, location="/b"),
            policies.PROVIDERS_CREATE)
        served = app.make_app(conf, apis=table(create))
        request = webob.Request.blank("/a", method="POST", headers={
            "X-Auth-Token": "admin", "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "api.example", "X-Forwarded-Prefix": "/capacity"})
        request.content_type = ""
        self.assertEqual(
            "https://api.example/capacity/b", request.get_response(served).headers["Location"])


@databases.on_each_database
class TestStandardNames(tests_base.DatabaseTestCase):
    """Standard classes and traits are brought up to date at each start."""

    def parts(self) -> services.Services:
        return services.build(base.configuration(
            self.database.url.render_as_string(hide_password=False)))

    def remove_some(self) -> None:
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.traits).where(
                tables.traits.c.name.like("HW\\_CPU%", escape="\\")))
            connection.execute(sa.delete(tables.resource_classes).where(
                tables.resource_classes.c.name == "VCPU"))

    def names(self) -> tuple[set[str], dict[str, int]]:
        with self.database.snapshot.connect() as connection:
            traits = set(connection.scalars(sa.select(tables.traits.c.name)))
            rows = connection.execute(
                sa.select(tables.resource_classes.c.name, tables.resource_classes.c.id))
            return traits, {row.name: row.id for row in rows}

    def test_missing_ones_come_back(self) -> None:
        before = self.names()
        self.remove_some()
        self.assertNotEqual(before, self.names())
        parts = self.parts()
        self.addCleanup(parts.database.dispose)
        standard.ensure(parts.context())
        self.assertEqual(before, self.names())

    def test_several_workers_at_once(self) -> None:
        before = self.names()
        self.remove_some()
        failures: list[BaseException] = []

        def start() -> None:
            parts = self.parts()
            try:
                standard.ensure(parts.context())
            except BaseException as error:
                failures.append(error)
            finally:
                parts.database.dispose()

        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual(before, self.names())


class TestMounted(base.HttpTestCase):
    """Two mounts of one application do not know of each other."""

    apis = table(*OPERATIONS)

    def test_prefixes(self) -> None:
        for prefix in ("", "/placement", "/a/b"):
            response = self.ask("GET", "/things", environ={"SCRIPT_NAME": prefix})
            self.assertEqual(prefix, response.json["prefix"])


class TestWsgiModule(tests_base.TestCase):
    """``placement_core.wsgi:application``."""

    def setUp(self) -> None:
        super().setUp()
        # Logging belongs to the test run.
        self.useFixture(fixtures.MockPatch("placement_core.logs.set_up"))

    def configured(self, text: str) -> dict[str, str]:
        folder = self.useFixture(fixtures.TempDir()).path
        pathlib.Path(folder, "placement.conf").write_text(text)
        return {"OS_PLACEMENT_CONFIG_DIR": folder}

    def test_import_needs_no_configuration(self) -> None:
        environment = {
            **os.environ, "OS_PLACEMENT_CONFIG_DIR": tempfile.gettempdir() + "/nowhere"}
        done = subprocess.run(
            [sys.executable, "-c", "from placement_core.wsgi import application"],
            env=environment, capture_output=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_serves(self) -> None:
        connection = databases.settings("sqlite").connection
        for name, value in self.configured(
            f"[placement_database]\nconnection = {connection}\n[api]\nauth_strategy = noauth2\n"
            "allow_remote_noauth2 = true\n"
        ).items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        application = wsgi.Application()
        for _ in range(2):
            self.assertEqual(
                200, webob.Request.blank("/").get_response(application).status_int)

    def test_a_forked_process_builds_its_own(self) -> None:
        connection = databases.settings("sqlite").connection
        for name, value in self.configured(
            f"[placement_database]\nconnection = {connection}\n[api]\nauth_strategy = noauth2\n"
            "allow_remote_noauth2 = true\n"
        ).items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        application = wsgi.Application()
        parents = application.load()
        child = os.fork()
        if child == 0:
            try:
                status = webob.Request.blank("/").get_response(application).status_int
                os._exit(0 if status == 200 and application.load() is not parents else 1)
            finally:
                os._exit(2)
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        self.assertIs(parents, application.load())

    def test_a_bad_configuration_is_one_line(self) -> None:
        for name, value in self.configured("[api]\nauth_strategy = noauth2\n").items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        with self.assertLogs("placement_core.wsgi", "CRITICAL") as logs:
            self.assertRaises(errors.ConfigurationError, wsgi.Application().load)
        self.assertIn("[placement_database] connection: expected", logs.output[0])

    def test_a_bad_configuration_is_not_built_for_each_request(self) -> None:
        """It costs half a second, and ``db sync`` needs processor and connections, too."""
        for name, value in self.configured("[api]\nauth_strategy = noauth2\n").items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        application = wsgi.Application()
        with self.assertLogs("placement_core.wsgi", "CRITICAL") as logs:
            first, second = (
                self.assertRaises(errors.ConfigurationError, application.load) for _ in range(2))
            self.assertEqual(str(first), str(second))
            self.assertEqual(1, len(logs.output))
            self.useFixture(fixtures.MockPatchObject(wsgi, "_REPEAT_SECONDS", 0))
            self.assertRaises(errors.ConfigurationError, application.load)
        self.assertEqual(2, len(logs.output))
