"""Online data migrations: batches, the table, exit codes, no progress."""

from __future__ import annotations

import itertools
from typing import Any

from placement_core.migrations import online
from tests import base


class Rows:
    """A migration of so many rows; the last ones cannot be migrated."""

    def __init__(self, movable: int, stuck: int = 0) -> None:
        self.movable, self.stuck = movable, stuck
        self.batches: list[int] = []

    def __call__(self, _ctx: Any, max_count: int) -> tuple[int, int]:
        found = self.movable + self.stuck
        done = min(max_count, self.movable)
        self.movable -= done
        self.batches.append(max_count)
        return found, done

    @property
    def migration(self) -> online.Migration:
        return online.Migration(self, lambda _ctx: self.movable + self.stuck)


class Pretended(Rows):
    """A migration that says that it finished what it met, and changes nothing."""

    def __call__(self, _ctx: Any, max_count: int) -> tuple[int, int]:
        self.batches.append(max_count)
        if len(self.batches) > 1000:
            raise AssertionError("it does not end")
        return min(max_count, self.movable), min(max_count, self.movable)


def _raise(_ctx: Any, _max_count: int) -> tuple[int, int]:
    raise ValueError("no such\ncolumn")


broken = online.Migration(_raise, lambda _ctx: 1)


class TestOnline(base.TestCase):
    def run_migrations(
        self, max_count: int | None = None, **migrations: Rows | online.Migration
    ) -> online.RunResult:
        self.lines: list[str] = []
        return online.run(None, max_count, self.lines.append, {  # type: ignore[arg-type]
            name: each.migration if isinstance(each, Rows) else each
            for name, each in migrations.items()})

    def test_until_complete(self) -> None:
        first, second = Rows(120), Rows(7)
        outcome = self.run_migrations(first=first, second=second)
        self.assertEqual(online.DONE, outcome.exit_code)
        # Each batch has 50 rows for all of them; a full one leaves the rest for later.
        self.assertEqual([50, 50, 50, 50], first.batches)
        self.assertEqual([30, 50], second.batches)
        self.assertEqual({"first": (120 + 70 + 20, 120), "second": (7, 7)}, outcome.counts)
        self.assertEqual("Running batches of 50 until complete", self.lines[0])
        self.assertIn("70 rows matched query first, 50 migrated", self.lines)

    def test_bounded(self) -> None:
        rows = Rows(3)
        for expected, found in ((online.MORE, 3), (online.MORE, 2), (online.MORE, 1),
                                (online.DONE, 0)):
            outcome = self.run_migrations(1, rows=rows)
            self.assertEqual((expected, {"rows": (found, min(found, 1))}),
                             (outcome.exit_code, outcome.counts))

    def test_rows_that_cannot_be_migrated(self) -> None:
        self.assertEqual(online.DONE, self.run_migrations(rows=Rows(0, stuck=4)).exit_code)

    def test_errors(self) -> None:
        outcome = self.run_migrations(broken=broken, rows=Rows(60))
        self.assertEqual(online.FAILED, outcome.exit_code)
        self.assertEqual((60 + 10, 60), outcome.counts["rows"])
        self.assertIn("Error attempting to run broken: no such", self.lines)
        # With a bound, an error may still go away with the work that is left.
        self.assertEqual(online.MORE, self.run_migrations(
            5, broken=broken, rows=Rows(60)).exit_code)
        self.assertEqual(online.FAILED, self.run_migrations(5, broken=broken).exit_code)

    def test_no_progress(self) -> None:
        """What finishes the same rows again and again is stopped; the others go on."""
        for movable in (1, 120):
            pretended, rows = Pretended(movable), Rows(60)
            outcome = self.run_migrations(pretended=pretended, rows=rows)
            self.assertEqual(online.FAILED, outcome.exit_code)
            self.assertEqual((60, 0), (outcome.counts["rows"][1], rows.movable))
            [line] = [line for line in self.lines if "progress" in line]
            self.assertIn(f"{movable} wait, no fewer than before", line)

    def test_rows_that_come_meanwhile(self) -> None:
        """The service adds rows while they are migrated."""
        rows, added = Rows(1), itertools.repeat(1, 150)

        def add_one(ctx: Any, max_count: int) -> tuple[int, int]:
            counts = rows(ctx, max_count)
            rows.movable += next(added, 0)
            return counts

        outcome = self.run_migrations(rows=online.Migration(add_one, lambda _ctx: rows.movable))
        self.assertEqual((online.DONE, 151), (outcome.exit_code, outcome.counts["rows"][1]))

    def test_rows_that_come_back(self) -> None:
        """A cell that was down has more rows than waited before."""
        rows = Rows(300)

        def come_back(ctx: Any, max_count: int) -> tuple[int, int]:
            counts = rows(ctx, max_count)
            if len(rows.batches) == 5:
                rows.movable += 5000
            return counts

        outcome = self.run_migrations(rows=online.Migration(come_back, lambda _ctx: rows.movable))
        self.assertEqual((online.DONE, 5300), (outcome.exit_code, outcome.counts["rows"][1]))

    def test_table(self) -> None:
        self.assertEqual(
            [
                "+-----------+-------------+-----------+",
                "| Migration | Total Found | Completed |",
                "+-----------+-------------+-----------+",
                "|   rows    |      3      |     2     |",
                "+-----------+-------------+-----------+",
            ],
            list(online.render_table(online.RunResult({"rows": (3, 2)}))),
        )
