"""Each test is run by one worker, and all workers have about as much to do."""

from __future__ import annotations

import datetime
import io
import pathlib

import fixtures
import subunit
from stestr import scheduler

from tests import base, workers

_NAMES = [
    "tests.conformance.test_gabbi.usage_one.test_request",
    "tests.functional.test_days_work.TestDay.test_it",
    "tests.nova.test_leases.TestLeases.test_one",
    "tests.nova.test_habits.TestHabits.test_one",
    "tests.unit.test_amounts.TestAmounts.test_one",
    "tests.unit.test_nobody_knows.TestIt.test_one",
]


class TestPartition(base.TestCase):

    def test_equal_sums(self) -> None:
        self.assertEqual(
            [["a", "d"], ["b", "c"]],
            workers.partition({"a": 300, "b": 200, "c": 150, "d": 40}, 2))

    def test_no_more_than_one(self) -> None:
        self.assertEqual([["a", "b"]], workers.partition({"b": 2, "a": 1}, 1))


class TestFile(base.TestCase):
    """What stestr makes of it."""

    def _divide(self, count: int) -> list[list[str]]:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "build", "workers.yaml")
        workers.write_file(path, count)
        return scheduler.generate_worker_partitions(_NAMES, str(path))

    def test_each_test_is_run_once(self) -> None:
        for count in (1, 2, 3, 8):
            parts = self._divide(count)
            self.assertEqual(sorted(_NAMES), sorted(name for part in parts for name in part))

    def test_what_shares_a_deployment_stays_together(self) -> None:
        [holders] = [
            part for part in self._divide(8) if any(".nova." in name for name in part)]
        self.assertEqual(2, sum(".nova." in name for name in holders))

    def test_modules_that_take_long_are_there(self) -> None:
        """Who renames or removes one changes the list of durations, too."""
        groups = {workers._find_group(module) for module in workers._list_modules()}
        listed = [line.split()[1] for line in workers._DURATIONS.read_text().splitlines()]
        self.assertEqual([], [group for group in listed if group not in groups])


class TestMeasure(base.TestCase):

    def test_setting_up_counts(self) -> None:
        """What passes between two tests of a worker belongs to the second."""
        stream = io.BytesIO()
        result = subunit.StreamResultToBytes(stream)
        for worker, name, began, ended in (
            ("worker-0", "tests.a.test_b.TestIt.test_one", 0, 4),
            ("worker-1", "tests.a.test_c.TestIt.test_one", 1, 2),
            ("worker-0", "tests.nova.test_d.TestIt.test_one", 10, 12),
            ("worker-0", "tests.nova.test_e.TestIt.test_one", 12, 13),
        ):
            for status, second in (("inprogress", began), ("success", ended)):
                result.status(
                    test_id=name, test_status=status, test_tags={worker},
                    timestamp=datetime.datetime(2026, 1, 1, 0, 0, second, tzinfo=datetime.UTC))
        stream.seek(0)
        self.assertEqual(
            {"tests.a.test_b": 4, "tests.a.test_c": 1, "tests.nova": 9}, workers.measure(stream))
