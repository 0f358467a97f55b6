"""Who starts before the database waits for it, within a bound, and then says why not."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import sqlalchemy as sa

from tests import base, databases, serving
from tests.functional.cli import commands
from tests.outages import links

_SERVERS = databases.KINDS[1:]
_URL = "OS_PLACEMENT_DATABASE__"
_ASKING_AGAIN = "does not answer; asking again in 1 s: "


class StartTestCase(base.TestCase):
    def link(self, kind: str) -> tuple[links.Link, str]:
        """Return a link to a server of databases, and a database's URL through it."""
        url = sa.make_url(databases.settings(kind).connection)
        link = self.useFixture(links.Link(
            (url.host or "", url.port or {"postgresql": 5432, "mysql": 3306}[kind])))
        host, port = link.address
        return link, url.set(host=host, port=port).render_as_string(hide_password=False)


class TestStart(StartTestCase):
    """``serve`` and ``manager`` before a server of databases."""

    def setUp(self) -> None:
        super().setUp()
        if not _SERVERS:
            self.skipTest("needs PostgreSQL or MariaDB")

    def test_serve_waits(self) -> None:
        for kind in _SERVERS:
            link, connection = self.link(kind)
            link.cut()
            service = serving.Service(connection, options={f"{_URL}RETRY_INTERVAL": "1"})
            restoring = threading.Thread(target=self.restore, args=(service, link))
            restoring.start()
            self.useFixture(service)
            restoring.join()
            self.assertEqual(200, service.request("GET", "/resource_providers")[0])
            self.assertIn(_ASKING_AGAIN, service.log.read_text().splitlines()[0])
            os.kill(service.process.pid, signal.SIGTERM)
            self.assertEqual(0, service.process.wait(60))

    def restore(self, service: serving.Service, link: links.Link) -> None:
        """Restore a link once the service has said that the database does not answer."""
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while not hasattr(service, "log") or _ASKING_AGAIN not in service.log.read_text():
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        link.restore()

    def test_manager_waits(self) -> None:
        for kind in _SERVERS:
            link, connection = self.link(kind)
            link.cut()
            process = subprocess.Popen(
                [sys.executable, "-m", "placement_core", "manager"],
                cwd=pathlib.Path(__file__).parents[2], text=True, bufsize=1,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=commands.environment(connection, **{f"{_URL}RETRY_INTERVAL": "1"}))
            self.addCleanup(process.communicate)
            self.addCleanup(process.terminate)
            self.assertIn(_ASKING_AGAIN, process.stderr.readline())
            link.restore()
            self.assertIn("carries out events", process.stdout.readline())

    def test_gives_up_in_one_line(self) -> None:
        """A server that refuses, and one that is silent; the wait is bounded."""
        for kind in _SERVERS:
            for trouble, command in ((links.Link.cut, "manager"), (links.Link.hang, "serve")):
                link, connection = self.link(kind)
                trouble(link)
                started = time.monotonic()
                done = commands.run_process(command, connection=connection, **{
                    f"{_URL}MAX_RETRIES": "1", f"{_URL}RETRY_INTERVAL": "1",
                    f"{_URL}NETWORK_TIMEOUT_SECONDS": "2"})
                self.assertLess(time.monotonic() - started, 40)
                self.assertEqual(1, done.returncode, done.stderr)
                again, gave_up = done.stderr.splitlines()
                self.assertIn(_ASKING_AGAIN, again)
                self.assertRegex(gave_up, r"^\[placement_database\] connection = \S+: the "
                                 r"database does not answer; gave up after 2 attempts in \d+ "
                                 r"s \(max_retries, retry_interval\): \S")

    def test_no_such_database(self) -> None:
        """It may be made in a moment, so that is waited for, too."""
        for kind in _SERVERS:
            url = sa.make_url(databases.settings(kind).connection).set(database="nobody_made_it")
            done = commands.run_process(
                "serve", connection=url.render_as_string(hide_password=False), **{
                    f"{_URL}MAX_RETRIES": "1", f"{_URL}RETRY_INTERVAL": "0"})
            self.assertEqual(1, done.returncode)
            self.assertIn("gave up after 2 attempts", done.stderr)
            self.assertIn("nobody_made_it", done.stderr.splitlines()[-1].rpartition("): ")[2])


class TestFiles(base.TestCase):
    def test_sqlite_is_not_waited_for(self) -> None:
        """Its file is there, or it is not."""
        for command in ("serve", "manager"):
            done = commands.run_process(command, connection="sqlite:////nonexistent/x.sqlite")
            self.assertEqual(1, done.returncode)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
            self.assertIn("there is no directory /nonexistent", done.stderr)
