"""The scheduler filter for nova: its own tests, in a process with nova alone."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

from tests import base

FOLDER = pathlib.Path(__file__).parents[2] / "plugins" / "nova-reservation-filter"


@unittest.skipUnless(importlib.util.find_spec("nova"), "nova is not installed")
class TestNovaReservationFilter(base.TestCase):
    """Nova's options are global to a process: they would meet those of other tests."""

    def test_its_tests(self) -> None:
        """All of them pass, with nothing of the service in the way."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "unittest", "--buffer"], cwd=FOLDER,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            | {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"},
            capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        ran = re.search(r"Ran (\d+) tests", done.stderr)
        self.assertGreater(int(ran.group(1)) if ran else 0, 8, done.stderr)

    def test_nothing_of_the_service(self) -> None:
        """It is installed where nova runs."""
        for path in (FOLDER / "nova_reservation_filter").glob("*.py"):
            self.assertNotRegex(path.read_text(), r"(?m)^\s*(from|import) placement")
