"""What survives a restart of the proxy."""

from __future__ import annotations

import pathlib
import sqlite3
from unittest import mock

import fixtures
import testtools

from placement_core.shadow import reports, state
from placement_core.shadow.errors import NoState, NotSwitched, StateInUse
from placement_core.shadow.modes import Mode, Side
from placement_core.shadow.touched import Key, Kind
from tests import full_states

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

    def test_what_could_not_be_written(self) -> None:
        """It is there once there is room for it."""
        with state.State(self.path) as opened:
            opened.begin(1, [A])
            opened.mark([A], "from before")
            opened.learn_identity(Kind.LIMIT, "u0", "o0")
            with full_states.fill(self.path):
                opened.end(1)
                opened.begin(2, [B])
                opened.begin(3, [A, *(Key(Kind.CONSUMER, f"{number}") for number in range(9))])
                opened.end(3)
                opened.mark([B], "because")
                opened.unmark([A])
                opened.learn_identity(Kind.LIMIT, "u1", "o1")
                opened.count(reports.REQUESTS)
                opened.flush()
                opened.begin(4, [A])
                self.assertEqual({A, B}, set(opened.list_under_way()))
            opened.flush()
            report = state.read_report(self.path)
            self.assertEqual((1, 2, {"consumer b": "because"}), (
                report.requests, report.waiting, report.unresolved))
            opened.end(2)
            self.assertEqual(1, state.read_report(self.path).waiting)
        with state.State(self.path) as opened:
            self.assertEqual({A, B}, set(opened.marks))
            for number in ("0", "1"):
                self.assertEqual((f"o{number}", f"u{number}"), (
                    opened.translate(Key(Kind.LIMIT, f"u{number}"), Side.OURS),
                    opened.translate(Key(Kind.LIMIT, f"o{number}"), Side.UPSTREAM)))

    def test_the_mode_cannot_be_written(self) -> None:
        with state.State(self.path) as opened:
            with full_states.fill(self.path):
                self.assertRaises(NotSwitched, opened.set_mode, Mode.SWITCHED)
            self.assertEqual(Mode.SHADOW, opened.mode)
        self.assertEqual(Mode.SHADOW, state.read_mode(self.path))

    def test_the_mode_waits_for_what_the_file_lacks(self) -> None:
        """A disk may have room for one of both alone."""
        with state.State(self.path) as opened:
            with full_states.fill(self.path):
                opened.mark([B], "because")
            with mock.patch.object(opened, "_write_anew", side_effect=sqlite3.OperationalError):
                self.assertRaises(NotSwitched, opened.set_mode, Mode.SWITCHED)
            self.assertEqual(Mode.SHADOW, state.read_mode(self.path))
            opened.set_mode(Mode.SWITCHED)
            self.assertEqual(
                {"consumer b": "because"}, state.read_report(self.path).unresolved)

    def test_the_end_while_nothing_can_be_written(self) -> None:
        with state.State(self.path) as opened:
            opened.count(reports.REQUESTS)
            room = full_states.fill(self.path)
            room.__enter__()
        room.__exit__(None, None, None)
        with state.State(self.path):
            self.assertEqual(0, state.read_report(self.path).requests)

    def test_identities(self) -> None:
        """A record has one id on each side, that which was learnt last."""
        with state.State(self.path) as opened:
            for upstream, ours in (("same", "same"), ("u", "o1"), ("u", "o2"), ("v", "o2")):
                opened.learn_identity(Kind.LIMIT, upstream, ours)
            self.assert_identities(opened)
        with state.State(self.path) as opened:
            self.assert_identities(opened)

    def assert_identities(self, opened: state.State) -> None:
        for ours, upstream in (("same", "same"), ("o1", "o1"), ("o2", "v")):
            self.assertEqual(upstream, opened.translate(Key(Kind.LIMIT, ours), Side.UPSTREAM))
        for upstream, ours in (("u", "u"), ("v", "o2")):
            self.assertEqual(ours, opened.translate(Key(Kind.LIMIT, upstream), Side.OURS))
        self.assertEqual("v", opened.translate(Key(Kind.REGISTERED_LIMIT, "v"), Side.OURS))

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
