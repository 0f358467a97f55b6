"""The wheel works where nothing else is installed: the oldest and newest that it allows."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

import fixtures

from placement_core.cli import main, supervisor
from tests import base, databases, server_programs
from tests.functional.migrations import bare
from tests.packages import environments

_EXTRAS = ",".join(environments.EXTRAS)


class _Installed(base.TestCase):
    """A test with the wheel in an environment of its own.

    :cvar extras: that are installed.
    :cvar version: of Python.
    :cvar options: of ``uv pip install``.
    """

    extras = "postgresql"
    version = sys.version_info[:2]
    options: tuple[str, ...] = ()
    kind = "postgresql" if "postgresql" in databases.KINDS else "sqlite"

    programs: pathlib.Path | None = None

    @classmethod
    def setUpClass(cls) -> None:
        """Build and install the wheel, once for all tests of the class."""
        super().setUpClass()
        python = environments.find_python(cls.version)
        if python is None:
            return
        temporary = tempfile.TemporaryDirectory(prefix="placement-packages-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        wheel = environments.build_wheel(folder)
        cls.programs = environments.make_environment(folder / "environment", python)
        environments.install(cls.programs, *cls.options, f"{wheel}[{cls.extras}]")

    @property
    def has_pages(self) -> bool:
        """Say whether the package of the pages' templates is there."""
        return "dashboard" in self.extras

    def setUp(self) -> None:
        super().setUp()
        if self.programs is None:
            self.skipTest("no Python {}.{} on this machine".format(*self.version))
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.environ = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("OS_", "PYTHON"))
        } | {
            "OS_PLACEMENT_CONFIG_DIR": self.folder,
            "OS_API__AUTH_STRATEGY": "noauth2",
            "OS_PLACEMENT_DATABASE__CONNECTION": bare.database(self.kind, self.addCleanup),
            "OS_DASHBOARD__ENABLED": str(self.has_pages),
        }

    def command(self, *arguments: str) -> str:
        """Run ``placement-core``, which succeeds without a word on stderr; return its output."""
        process = subprocess.run(
            [self.programs / "placement-core", *arguments], cwd=self.folder, env=self.environ,
            capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (process.returncode, process.stderr))
        return process.stdout

    def serve(self) -> None:
        """Start the service; return when it says that it serves."""
        self.address = f"127.0.0.1:{server_programs.find_free_port()}"
        process = subprocess.Popen(
            [self.programs / "placement-core", "serve", "--bind", self.address],
            cwd=self.folder, env=self.environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 2 * supervisor.STOP_SECONDS)
        self.addCleanup(os.killpg, process.pid, signal.SIGTERM)
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "placement-core serves on" in line:
                break
        else:
            self.fail("".join(lines))
        self.assertNotIn("Warning", "".join(lines))

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        """Send a request as an administrator."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        self.addCleanup(connection.close)
        connection.request(method, path, json.dumps(body), {
            "X-Auth-Token": "admin", "Content-Type": "application/json",
            "OpenStack-API-Version": "placement 1.39"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or "{}")

    def check(self) -> None:
        """Make the database, serve, and use what was written through the service."""
        self.assertEqual(f"placement-core {main.get_version()}\n", self.command("--version"))
        self.command("db", "sync")
        self.serve()
        status, provider = self.ask("POST", "/resource_providers", {"name": "host1"})
        self.assertEqual(200, status, provider)
        status, document = self.ask(
            "PUT", f"/resource_providers/{provider['uuid']}/inventories",
            {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}})
        self.assertEqual(200, status, document)
        for count, hosts in ((4, 1), (5, 0)):
            status, document = self.ask("GET", f"/allocation_candidates?resources=VCPU:{count}")
            self.assertEqual((200, hosts), (status, len(document["allocation_requests"])))
        status, document = self.ask("POST", "/resource_providers", {"name": 1})
        self.assertEqual(400, status, document)
        self.assertEqual(200, self.ask("GET", "/v3/limits")[0])
        self.assertEqual(200, self.ask("GET", "/v1/leases")[0])
        if self.has_pages:
            self.check_pages()

    def check_pages(self) -> None:
        """The templates and what they refer to are in the wheel."""
        page = self.read("/dashboard")
        self.assertIn("I need", page)
        for address in re.findall(r'(?:href|src)="([^"]*/static/[^"]+)"', page):
            self.assertTrue(self.read(address))

    def read(self, path: str) -> str:
        """Return the text at a path."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as response:
            return response.read().decode()


class TestNewest(_Installed):
    """What pip installs today, with the newest Python that is supported."""

    version = environments.NEWEST_PYTHON

    def test_it_serves(self) -> None:
        self.check()


class TestNewestPython(_Installed):
    """The newest Python that is supported, beside the default one of the other tests."""

    extras = "test"
    version = environments.NEWEST_PYTHON

    def test_unit_tests(self) -> None:
        environ = {name: value for name, value in self.environ.items()
                   if not name.startswith("OS_")}
        process = subprocess.run(
            [self.programs / "python", "-m", "testtools.run", "discover", "-s", "tests/unit",
             "-t", "."],
            # What chance draws, the default Python has seen.
            cwd=environments.ROOT, env=environ | {
                "PYTHONPATH": ".:plugins", "HYPOTHESIS_PROFILE": "brief"},
            capture_output=True, text=True, check=False)
        self.assertEqual(0, process.returncode, process.stdout[-4000:] + process.stderr[-4000:])
        self.assertIn("\nOK\n", process.stdout)


class TestOldest(_Installed):
    """The lower bounds of setup.cfg, of every extra that the service uses."""

    extras = _EXTRAS
    version = environments.OLDEST_PYTHON
    options = ("--resolution", "lowest-direct")

    def test_it_serves(self) -> None:
        self.check()
