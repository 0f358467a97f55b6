"""What survives a restart of the proxy."""

from __future__ import annotations

import pathlib

import fixtures
import testtools

from placement_core.shadow import reports, state
from placement_core.shadow.errors import NoState, StateInUse
from placement_core.shadow.modes import Mode, Side
from placement_core.shadow.touched import Key, Kind

A, B = Key(Kind.PROVIDER, "a"), Key(Kind.CONSUMER, "b")


class TestState(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "state")

    def test_a_new_one(self) -> None:
        with state.State(self.path) as opened:
            self.assertEqual(Mode.SHADOW, opened.mode)
            self.assertIsNone(opened.version)
            self.assertEqual({}, opened.marks)

    def test_the_mode_is_there_at_once(self) -> None:
        with state.State(self.path) as opened:
            opened.set_mode(Mode.SWITCHED)
            self.assertEqual(Mode.SWITCHED, state.read_mode(self.path))

    def test_what_stays(self) -> None:
        with state.State(self.path) as opened:
            opened.set_mode(Mode.SWITCHED)
            opened.version = (1, 39)
            opened.mark([A, B], "because")
            opened.unmark([A])
        with state.State(self.path) as opened:
            self.assertEqual(Mode.SWITCHED, opened.mode)
            self.assertEqual((1, 39), opened.version)
            self.assertEqual({B: "because"}, opened.marks)

    def test_what_was_under_way_is_marked(self) -> None:
        """A proxy that is killed knows afterwards what to read again."""
        with state.State(self.path) as opened:
            opened.begin(1, [A])
            opened.begin(2, [B])
            opened.end(1)
            self.assertEqual(1, state.read_report(self.path).waiting)
        with state.State(self.path) as opened:
            self.assertEqual([B], list(opened.marks))
        self.assertEqual(0, state.read_report(self.path).waiting)

    def test_one_proxy_at_a_time(self) -> None:
        with state.State(self.path):
            self.assertRaises(StateInUse, state.State, self.path)
        state.State(self.path).__exit__()

    def test_a_file_that_is_none(self) -> None:
        self.path.write_text("What is this? " * 1000)
        self.assertRaises(NoState, state.State, self.path)
        self.assertRaises(NoState, state.read_report, self.path)

    def test_no_file(self) -> None:
        self.assertRaises(NoState, state.read_mode, self.path)
        self.assertFalse(self.path.exists())

    def test_a_folder_that_is_none(self) -> None:
        self.assertRaises(NoState, state.State, self.path / "nowhere")

    def test_report(self) -> None:
        for _ in range(2):
            with state.State(self.path) as opened:
                opened.count(reports.REQUESTS, 5)
                opened.count(reports.NOISE + "links")
                opened.differ("usages: body", "GET", "/usages", "200 a", "200 b")
                opened.count(reports.ERRORS + Side.OURS, 3)
                for milliseconds in range(1, 101):
                    opened.measure(Side.UPSTREAM, milliseconds / 1000)
        report = state.read_report(self.path)
        self.assertEqual(10, report.requests)
        self.assertEqual({"links": 2}, report.noise)
        self.assertEqual({"usages: body": 2}, report.different)
        self.assertEqual({Side.UPSTREAM: 0, Side.OURS: 6}, report.errors)
        self.assertEqual({}, report.latencies[Side.OURS])
        for percentile, milliseconds in report.latencies[Side.UPSTREAM].items():
            self.assertAlmostEqual(percentile, milliseconds, delta=0.06 * percentile)
        self.assertEqual([50, 95, 99], list(report.latencies[Side.UPSTREAM]))
        self.assertEqual("/usages", report.examples[0].target)
