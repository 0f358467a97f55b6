"""The numbers that ``make test`` and ``.ci/run`` end with are true."""

from __future__ import annotations

import io
import os
import stat
from contextlib import redirect_stdout

import fixtures
import subunit

from tests import base, run

_FILE = "tests.conformance.test_gabbi.usage_"


class TestCounting(base.TestCase):
    """Reading what the workers said."""

    def _counts(self, *events: tuple[str, str]) -> tuple[dict[str, int], dict[str, int]]:
        stream = io.BytesIO()
        result = subunit.StreamResultToBytes(stream)
        for test, status in events:
            result.status(test_id=test, test_status=status)
        stream.seek(0)
        said = io.StringIO()
        with redirect_stdout(said):
            counts, conformance = run._read(stream)
        self.said = said.getvalue().splitlines()
        return dict(counts), dict(conformance)

    def test_outcomes(self) -> None:
        """A test that began and never ended has failed."""
        counts, conformance = self._counts(
            ("tests.a", "inprogress"), ("tests.a", "success"), ("tests.b", "skip"),
            ("tests.c", "fail"), ("tests.d", "xfail"), ("tests.e", "uxsuccess"),
            ("tests.f", "inprogress"),
        )  # fmt: skip
        self.assertEqual({"passed": 2, "skipped": 1, "failed": 3}, counts)
        self.assertEqual({}, conformance)
        self.assertEqual(
            ["failed: tests.c", "failed: tests.e", "failed: tests.f"], sorted(self.said))

    def test_ends_of_tracebacks(self) -> None:
        """The last lines of some, and then the name of each test that failed."""
        stream = io.BytesIO()
        result = subunit.StreamResultToBytes(stream)
        lines = [f"line {number}" for number in range(30)]
        for name in "abcdefghijklm":
            result.status(
                test_id=name, test_status="fail", file_name="traceback",
                mime_type="text/x-traceback;charset=utf8", eof=True,
                file_bytes="\n".join(lines).encode())
        stream.seek(0)
        said = io.StringIO()
        with redirect_stdout(said):
            run._read(stream)
        ends = [f"    {line}" for line in lines[-12:]]
        printed = said.getvalue().splitlines()
        self.assertEqual(["a ended with", *ends, "b ended with"], printed[:14])
        self.assertEqual(10, printed.count(ends[-1]))
        self.assertEqual([f"failed: {name}" for name in "abcdefghijklm"], printed[-13:])

    def test_conformance(self) -> None:
        """The suite's tests are counted apart, without our tests of the suite."""
        counts, conformance = self._counts(
            (f"{_FILE}one.test_request", "success"), (f"{_FILE}two.test_request", "fail"),
            ("tests.conformance.test_gabbi.TestTheSuite.test_is_whole", "success"),
        )  # fmt: skip
        self.assertEqual({"passed": 2, "failed": 1}, counts)
        self.assertEqual({"passed": 1, "failed": 1}, conformance)

    def test_the_ci_run_can_be_started(self) -> None:
        """.ci/run is a program."""
        mode = os.stat(run.ROOT / ".ci" / "run").st_mode
        self.assertTrue(mode & stat.S_IXUSR)

    def test_what_is_left_out_is_said(self) -> None:
        """The last line names databases, the real nova, the browser and Pythons that lack."""
        self.useFixture(fixtures.MonkeyPatch("tests.databases.KINDS", ("sqlite", "mysql")))
        self.useFixture(fixtures.MonkeyPatch(
            "tests.nova.deployment.missing", lambda: "RabbitMQ (set X)"))
        self.useFixture(fixtures.MonkeyPatch(
            "tests.browser.chromium.find_missing", lambda: "Chromium (set Y)"))
        self.useFixture(fixtures.MonkeyPatch(
            "tests.packages.environments.find_python",
            lambda version: None if version == (3, 13) else "python"))
        self.assertEqual(
            "; databases: sqlite, mysql; NOT TESTED: postgresql (set PLACEMENT_TEST_POSTGRESQL), "
            "leases in a real nova, which needs RabbitMQ (set X), "
            "the dashboard in a browser, which needs Chromium (set Y), Python 3.13",
            run._extent())
        self.useFixture(fixtures.MonkeyPatch("tests.nova.deployment.missing", lambda: None))
        self.useFixture(fixtures.MonkeyPatch("tests.browser.chromium.find_missing", lambda: None))
        self.useFixture(fixtures.MonkeyPatch(
            "tests.packages.environments.find_python", lambda version: "python"))
        self.useFixture(fixtures.MonkeyPatch(
            "tests.databases.KINDS", ("sqlite", "postgresql", "mysql")))
        self.assertEqual("; databases: sqlite, postgresql, mysql", run._extent())
