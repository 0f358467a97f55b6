"""``placement-core migrate shadow …`` and what follows: options, and what is said."""

from __future__ import annotations

import json
import pathlib

import fixtures
import testtools

from placement_core.shadow import reports, state
from placement_core.shadow.modes import Mode, Side
from placement_core.shadow.touched import Key, Kind
from tests import shadows
from tests.functional.cli import commands

_NOWHERE = "http://127.0.0.1:1"


class ShadowCommandTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = self.folder / "state"

    def run_command(self, *arguments: str) -> tuple[int, str, str]:
        done = commands.run("migrate", *arguments)
        return done.returncode, done.stdout, done.stderr

    def serve(self, **options: str) -> tuple[int, str, str]:
        options = {"upstream": _NOWHERE, "ours": _NOWHERE, "state": str(self.state),
                   "bind": f"127.0.0.1:{shadows.find_port()}", **options}
        return self.run_command("shadow", "serve", *(
            word for name, value in options.items()
            for word in (f"--{name.replace('_', '-')}", value)))


class TestServe(ShadowCommandTestCase):
    def test_bad_options(self) -> None:
        """One line says what is wrong."""
        text = self.folder / "text"
        text.write_text("no database" * 100)
        for options, expected in (
            ({"upstream": "controller:8778"}, "'controller:8778' is not a URL such as http://"),
            ({"ours": "ftp://host"}, "'ftp://host' is not a URL such as http://"),
            ({"bind": "8778"}, "'8778' is not HOST:PORT"),
            ({"compare_reads": "101"}, "'101': expected a number from 0 to 100"),
            ({"compare_reads": "all"}, "'all': expected a number from 0 to 100"),
            ({"max_waiting": "0"}, "expected a number from 1 on"),
            ({"token_file": "/nonexistent"}, "--token-file /nonexistent: no such file"),
            ({"state": str(self.folder / "no" / "state")}, "No such file or directory"),
            ({"state": str(text)}, "file is not a database"),
            ({"control": "/" + "x" * 120}, "expected at most 107 characters"),
            ({}, f"--upstream {_NOWHERE}: {_NOWHERE}: cannot connect: "),
        ):
            code, said, complaint = self.serve(**options)
            self.assertNotEqual(0, code, options)
            self.assertEqual("", said)
            self.assertIn(expected, complaint)
            self.assertNotIn("Traceback", complaint)

    def test_the_state_of_another_proxy(self) -> None:
        with state.State(self.state):
            self.assertIn(f"--state {self.state}: another proxy runs with it", self.serve()[2])


class TestReport(ShadowCommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        with state.State(self.state) as opened:
            opened.count(reports.REQUESTS, 7)
            opened.count(reports.EQUAL, 5)
            opened.count(reports.ERRORS + Side.OURS, 1)
            opened.count(reports.NOISE + "request id", 4)
            opened.differ("usages: body", "GET", "/usages", '200 {"a": 1}', "200 {}")
            opened.measure(Side.OURS, 0.002)
            opened.mark([Key(Kind.PROVIDER, "p")], "because")

    def test_for_machines(self) -> None:
        code, printed, _ = self.run_command(
            "shadow", "report", "--state", str(self.state), "-f", "json")
        report = json.loads(printed)
        self.assertEqual(0, code)
        self.assertEqual(2, round(report.pop("ours_p95_ms")))
        self.assertEqual({
            "mode": "shadow", "requests": 7, "equal": 5, "ours_errors": 1, "upstream_errors": 0,
            "different": {"usages: body": 1}, "known_noise": {"request id": 4},
            "unresolved": {"resource provider p": "because"}, "writes": 0, "applied": 0,
            "waiting": 0, "not_compared": 0, "reread": 0,
            "examples": {"usages: body": 'GET /usages: upstream 200 {"a": 1}; ours 200 {}'},
        }, {name: value for name, value in report.items() if not name.endswith("_ms")})

    def test_for_people(self) -> None:
        _, printed, _ = self.run_command("shadow", "report", "--state", str(self.state))
        self.assertRegex(printed, r"different +\| 1 usages: body")
        self.assertRegex(printed, r"known_noise +\| 4 request id")

    def test_every_field_is_explained(self) -> None:
        """In the operator's guide."""
        _, printed, _ = self.run_command(
            "shadow", "report", "--state", str(self.state), "-f", "json")
        guide = pathlib.Path(__file__).parents[3] / "doc" / "operator" / "shadow.rst"
        text = guide.read_text()
        for name in json.loads(printed):
            if not name.endswith("_ms"):
                self.assertIn(f"\n``{name}``", text)
            self.assertIn(f"| {name} ", text)

    def test_no_state(self) -> None:
        code, _, complaint = self.run_command(
            "shadow", "report", "--state", str(self.folder / "none"))
        self.assertEqual(1, code)
        self.assertIn('no such file; "migrate shadow serve" begins one', complaint)


class TestStatus(ShadowCommandTestCase):
    def test_each_mode_in_one_line(self) -> None:
        for mode, next_step in (
            (Mode.SHADOW, '"migrate switch --dry-run"'), (Mode.SWITCHED, '"migrate complete"'),
            (Mode.COMPLETE, "without the proxy"), (Mode.CANCELLED, "without the proxy"),
        ):
            with state.State(self.state) as opened:
                opened.set_mode(mode)
            code, printed, _ = self.run_command("status", "--state", str(self.state))
            self.assertEqual((0, 1), (code, len(printed.splitlines())))
            self.assertTrue(printed.startswith(f"{mode}: "))
            self.assertIn(next_step, printed.partition("Next: ")[2])

    def test_nobody_listens(self) -> None:
        with state.State(self.state):
            pass
        for word in ("switch", "reverse", "complete", "cancel"):
            code, _, complaint = self.run_command(word, "--state", str(self.state))
            self.assertEqual(1, code)
            self.assertIn("no proxy answers there", complaint)

    def test_bad_options(self) -> None:
        for arguments, expected in (
            (("--hold", "0"), "expected seconds, from 0.1 to 3600"),
            (("--max-differences", "-1"), "expected"),
        ):
            code, _, complaint = self.run_command(
                "switch", "--state", str(self.state), *arguments)
            self.assertEqual(2, code)
            self.assertIn(expected, complaint)
