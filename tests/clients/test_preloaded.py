"""``openstack`` from a process that has loaded it is ``openstack``."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys

import fixtures

from tests import base
from tests.clients import preloaded

_PROGRAM = [str(pathlib.Path(sys.executable).with_name("openstack"))]
_LOGIN = ("--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint")


class TestPreloaded(base.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "XDG_CACHE_HOME": self.folder}

    def test_the_same_answers(self) -> None:
        """Exit code, output and complaints are those of the program."""
        for arguments in (["--version"], ["catalog", "lst"], ["resource", "provider", "create"]):
            answers = []
            for program in (preloaded.command(), _PROGRAM):
                done = subprocess.run([*program, *arguments], env=self.environment,
                                      cwd=self.folder, capture_output=True, text=True)
                answers.append((done.returncode, done.stdout, done.stderr))
            self.assertEqual(answers[1], answers[0])

    def test_environment(self) -> None:
        """Each command has its own."""
        done = subprocess.run(
            [*preloaded.command(), "--debug", "resource", "provider", "list"], text=True,
            env={**self.environment, "OS_AUTH_TYPE": "admin_token", "OS_TOKEN": "x",
                 "OS_ENDPOINT": "http://127.0.0.1:1/mine"}, capture_output=True)
        self.assertEqual(1, done.returncode)
        self.assertIn("http://127.0.0.1:1/mine", done.stderr)

    def test_signals(self) -> None:
        """Who interrupts or kills the process ends the command."""
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.start_waiting() as process:
                process.send_signal(sent)
                # It ends when the last process that writes there does.
                process.stdout.read()
                self.assertNotEqual(0, process.wait(60), sent)

    def start_waiting(self) -> subprocess.Popen[bytes]:
        """Return a command that waits for an answer."""
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*preloaded.command(), *_LOGIN, url, "resource", "provider", "list"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        connection, _ = silent.accept()
        self.addCleanup(connection.close)
        return process
