"""Runs of the benchmark that are saved row by row, and the page that is made of them."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import subprocess
from unittest import mock

import fixtures

from benchmarks import __main__ as benchmarks, growth, page, rows, runs
from benchmarks.bench import Growth
from tests import base

_MEASURES = ("order-placed", "growth-cells", "growth-start")


class TestRuns(base.TestCase):
    def setUp(self):
        super().setUp()
        self.build = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def begin(self, **conditions):
        return runs.Run.begin(self.build, "sqlite", conditions)

    def resume(self, **conditions):
        return runs.Run.resume(self.build, "sqlite", conditions)

    def part(self, **values):
        return {"rows": [], "growth": [], "seconds": 1.0, "load_average": [0, 0],
                "loading": [], **values}

    def test_a_row_is_there_once_it_is_saved(self):
        run = self.begin(commit="a")
        self.assertIsNone(run.read("one"))
        run.save("one", self.part(growth=[{"name": "one"}]))
        run.save("two", self.part(rows=[{"name": "two"}], seconds=2.0))
        again = self.resume(commit="a")
        self.assertEqual(run.folder, again.folder)
        document = again.assemble(["two", "one", "three"])
        self.assertEqual(([{"name": "two"}], [{"name": "one"}]),
                         (document["rows"], document["growth"]))
        self.assertEqual({"two": 2.0, "one": 1.0}, document["seconds"])
        self.assertEqual(("a", run.started), (document["commit"], document["started"]))

    def test_a_write_that_breaks_leaves_what_was_there(self):
        run = self.begin(commit="a")
        run.save("one", self.part(seconds=1.0))
        with mock.patch("os.replace", side_effect=OSError):
            self.assertRaises(OSError, run.save, "one", self.part(seconds=2.0))
        self.assertEqual(1.0, run.read("one")["seconds"])

    def test_the_last_run_under_the_same_conditions_is_resumed(self):
        self.begin(commit="a", pairs=5)
        second = self.begin(commit="a", pairs=5)
        third = self.begin(commit="b", pairs=5)
        self.assertEqual(second.folder, self.resume(commit="a", pairs=5).folder)
        self.assertEqual(third.folder, self.resume(commit="b", pairs=5).folder)

    def test_another_commit_or_option_is_not_resumed(self):
        error = self.assertRaises(runs.NothingToResume, self.resume, commit="a")
        self.assertIn("no run has begun", str(error))
        self.begin(commit="a", pairs=5)
        error = self.assertRaises(runs.NothingToResume, self.resume, commit="b", pairs=3)
        self.assertIn("differs in commit, pairs", str(error))

    def test_the_code_is_a_commit_and_what_was_changed_since(self):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.MonkeyPatch("benchmarks.runs.ROOT", root))
        paths = [root / name for name in ("code.py", "doc/page.md", "benchmarks/results/a.json")]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")
        for command in (["init", "-q"], ["add", "."],
                        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
            subprocess.run(["git", *command], cwd=root, check=True)
        commit = runs.describe_code()
        self.assertEqual(40, len(commit))
        for path in paths[1:]:
            path.write_text("2")
        self.assertEqual(commit, runs.describe_code())
        paths[0].write_text("2")
        changed = runs.describe_code()
        self.assertTrue(changed.startswith(f"{commit} with changes "), changed)
        paths[0].write_text("3")
        self.assertNotEqual(changed, runs.describe_code())

    def test_progress(self):
        names = ["one", "two", "three", "four"]
        for seconds, before, expected in (
            ({}, {"one": 60.0}, "0 of 4 rows, about 4 min left"),
            ({"one": 60.0}, {}, "1 of 4 rows, about 3 min"),
            # Twice as fast as before, and nobody knows the fourth.
            ({"one": 60.0}, {"one": 120.0, "two": 240.0, "three": 600.0}, "about 10 min"),
            (dict.fromkeys(names, 60.0), {}, "4 of 4 rows, about 0 min"),
        ):
            self.assertIn(expected, runs.describe_progress(names, seconds, before))
        self.assertTrue(runs.describe_progress(names, {}, {}).endswith("0 of 4 rows"))
        self.assertIn("[" + "#" * 15 + " " * 15 + "]", runs.describe_progress(
            names, {"one": 1.0, "two": 1.0}, {}))


class TestMain(base.TestCase):
    """``python -m benchmarks``, with rows that take no time."""

    def setUp(self):
        super().setUp()
        self.build = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.failing = set()
        self.measured = []
        self.useFixture(fixtures.MonkeyPatch("benchmarks.growth.measure", self.measure))

    def measure(self, name, _bench, _rounds):
        if name in self.failing:
            raise RuntimeError(f"{name} is broken")
        self.measured.append(name)
        return Growth(name, growth.MEASURES[name].title, 1.0, None, {})

    def main(self, *more):
        """Run; return the exit code and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = benchmarks.main([
                "--database", "sqlite", *(f"--row={name}" for name in _MEASURES),
                "--build", str(self.build), *more])
        return code, said.getvalue()

    def test_a_run_goes_on_where_one_failed(self):
        self.failing = {"growth-cells"}
        code, said = self.main()
        self.assertEqual(1, code)
        self.assertIn("growth-cells is broken", said)
        self.assertIn("not measured: growth-cells; --resume", said)
        self.assertIn("2 of 3 rows", said)
        self.assertEqual(["growth-start", "order-placed"], sorted(self.measured))

        self.failing = set()
        self.assertEqual(0, self.main("--resume")[0])
        self.assertEqual(3, len(self.measured), "what is measured is not measured again")
        self.assertEqual(0, self.main("--resume")[0])
        self.assertEqual(3, len(self.measured))
        self.assertEqual(0, self.main()[0])
        self.assertEqual(6, len(self.measured), "without --resume, all are")
        code, said = self.main("--resume", "--pairs", "7")
        self.assertIn("differs in pairs: a new one begins", said)
        self.assertEqual((0, 9), (code, len(self.measured)))

    def test_a_killed_run_goes_on(self):
        def interrupted(name, bench, rounds):
            if len(self.measured) == 2:
                raise KeyboardInterrupt
            return self.measure(name, bench, rounds)

        with mock.patch("benchmarks.growth.measure", interrupted):
            self.assertRaises(KeyboardInterrupt, self.main)
        self.assertEqual(0, self.main("--resume")[0])
        self.assertEqual(sorted(_MEASURES), sorted(self.measured))

    def test_results_of_some_rows_stay_with_the_run(self):
        committed = (page.RESULTS / "postgresql.json").read_bytes()
        _, said = self.main()
        self.assertIn("no results for the page: not measured: candidates-1k (1 clients)", said)
        [path] = (self.build / "runs").glob("sqlite-*/sqlite.json")
        self.assertEqual(set(_MEASURES), {
            row["name"] for row in json.loads(path.read_text())["growth"]})
        self.assertFalse((page.RESULTS / "sqlite.json").exists())
        self.assertEqual(committed, (page.RESULTS / "postgresql.json").read_bytes())


class TestFaults(base.TestCase):
    """The page is made of complete runs only."""

    def document(self, *, without=(), **more):
        return {
            "database": "SQLite", "commit": "a", "scale": 1.0,
            "rows": [{"name": row.name, "clients": clients} for row in rows.ROWS
                     for clients in row.clients if row.name not in without],
            "growth": [{"name": name} for name in growth.MEASURES if name not in without], **more}

    def test_a_complete_run_has_none(self):
        self.assertEqual([], page.list_faults(self.document()))

    def test_missing_rows_are_named(self):
        [fault] = page.list_faults(self.document(without=("claims-tight", "growth-cells")))
        self.assertEqual("not measured: claims-tight (32 clients), growth-cells", fault)

    def test_rows_that_are_awaited_may_be_missing(self):
        with mock.patch.object(page, "AWAITED", {"growth-cells"}):
            self.assertEqual([], page.list_faults(self.document(without=("growth-cells",))))

    def test_what_is_not_one_run_in_full_size(self):
        document = self.document(scale=0.1)
        del document["commit"]
        self.assertEqual(2, len(page.list_faults(document)))

    def test_the_command_refuses_a_partial_run_and_leaves_the_page(self):
        before, said = page.PAGE.read_bytes(), io.StringIO()
        documents = [self.document(), self.document(without=("claims-tight",))]
        with mock.patch.object(page, "load", return_value=documents):
            with contextlib.redirect_stderr(said):
                self.assertEqual(1, page.main())
        self.assertEqual("SQLite: not measured: claims-tight (32 clients)\n", said.getvalue())
        self.assertEqual(before, page.PAGE.read_bytes())
