"""The README's first hour happens as it says, and its links lead somewhere."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import fixtures

from placement_core.cli import supervisor
from tests import base, console_pages, serving

_ROOT = pathlib.Path(__file__).parents[2]
_README = _ROOT / "README.rst"
_SECTIONS = ("The first five minutes", "Reserve it")
#: Where the README serves; the test needs a port of its own.
_ADDRESS = "127.0.0.1:8778"


class TestFirstHour(base.TestCase):
    """From a clone to a lease, with nothing but what the README says."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "placement_core")
        self._copy_checkout()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.environ = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("OS_", "PLACEMENT_")) and name not in (
                "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}

    def _copy_checkout(self) -> None:
        """Copy what a clone would have, with changes that are not committed yet."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=_ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (_ROOT / name).is_file():
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_ROOT / name, target)

    def _make_serve(self) -> list[str]:
        """Start ``make serve``; return what it printed until it served."""
        process = subprocess.Popen(
            ["make", "serve", f"SERVE_BIND={self.address}"], cwd=self.folder, env=self.environ,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        # ``serve`` kills a worker that does not end by itself; that is not judged here.
        self.addCleanup(process.wait, 2 * supervisor.STOP_SECONDS)
        self.addCleanup(os.killpg, process.pid, signal.SIGTERM)
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if "placement-core serves on" in line:
                return lines
        raise AssertionError("\n".join(lines[-20:]))

    def test_every_command(self) -> None:
        """Each prints what the README shows, in one new shell."""
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed")
        steps = console_pages.read_steps(_README, _SECTIONS)
        self.assertGreater(len(steps), 16)
        started = self._make_serve()
        self.assertTrue(any(line.startswith("Installing") for line in started), started)
        done = console_pages.run(
            steps, cwd=self.folder, environ=self.environ, replaced={_ADDRESS: self.address},
            seconds=serving.SECONDS_TO_START)
        self.assertEqual([], list(console_pages.find_differences(steps, done)))
        self.assertIn("no placement.conf: the database is sqlite:////", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class TestReadme(base.TestCase):
    """The front page can be believed."""

    def test_links(self) -> None:
        """Files that the README names exist."""
        named = re.findall(r"<([\w/]+\.rst)>|``((?:etc|tests|doc)/[\w./]+)``", _README.read_text())
        self.assertGreater(len(named), 4)
        for path in ("".join(pair) for pair in named):
            self.assertTrue((_ROOT / path).exists(), path)

    def test_two_commands(self) -> None:
        """``make serve`` and ``make test`` each stand alone in a line."""
        lines = [line.strip() for line in _README.read_text().splitlines()]
        self.assertIn("make serve", lines)
        self.assertIn("make test", lines)
