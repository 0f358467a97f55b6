"""Running rows of the benchmark in the smallest size."""

import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

import fixtures

from benchmarks import __main__ as benchmarks
from tests import base


@unittest.skipUnless(shutil.which("cc"), "plload needs a C compiler")
class SmokeTestCase(base.TestCase):
    """Some rows on SQLite, both sides, with turns of a moment.

    Datasets stay for the next test, as those of one run do for the next row.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build = tempfile.TemporaryDirectory(prefix="placement-bench-")
        cls.addClassCleanup(build.cleanup)
        cls.build = build.name

    def measured(self, *patterns):
        """Run the rows; return what was written."""
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            benchmarks.main([
                *("--database", "sqlite", *(f"--row={pattern}" for pattern in patterns)),
                *("--scale", "0.004", "--pairs", "1", "--seconds", "0.4", "--clients", "2"),
                *("--rounds", "1", "--keep"),
                *("--upstream-python", sys.executable, "--keystone-python", sys.executable),
                *("--build", self.build, "--results", str(folder)),
            ])
        document = json.loads((folder / "sqlite.json").read_text())
        for path in (self.build, str(folder)):
            self.assertNotIn(path, json.dumps(document))
        return document
