"""Data migrations that run in batches while the service runs.

A migration changes at most ``max_count`` rows and is idempotent. It returns how many rows it found
that need the migration, and how many of them it migrated; the difference are rows that cannot be
migrated. The numbers are verified: from time to time the remaining rows are counted, and there
have to be fewer.
Source: spec placement_api §7.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping

from placement_core import errors
from placement_core.cells import backfill
from placement_core.compute import nodes
from placement_core.context import Context
from placement_core.placement.allocations import missing_consumers, usage_counters
from placement_core.quota import nodes as limit_nodes
from placement_core.reservations.provisioning import slot_providers
from placement_core.services import Services

LOG = logging.getLogger(__name__)

#: Called with (name of the migration, number of migrated rows, number of all rows).
Report = Callable[[str, int, int], None]

#: The number of rows in a batch if the operator sets no bound.
BATCH = 50

#: How many rows beyond the last count may be migrated before the next count: the running
#: service may have added rows.
_SLACK = 4 * BATCH

#: Exit codes: nothing is left; a run with ``max_count`` migrated rows; a migration failed while no
#: rows were migrated, or made no progress; ``max_count`` is not valid.
DONE, MORE, FAILED, INVALID = 0, 1, 2, 127


class NoProgress(errors.Error):
    """A migration reports migrated rows, but the number of remaining rows has not decreased."""

    def __init__(self, done: int, waiting: int) -> None:
        super().__init__(f"it makes no progress: {done} rows were migrated, and {waiting} "
                         "wait, no fewer than before; it is stopped")


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A data migration.

    :ivar migrate: (ctx, max_count) -> (found, done).
    :ivar count: returns the number of rows that need it.
    """

    migrate: Callable[[Context, int], tuple[int, int]]
    count: Callable[[Context], int]


class ProgressGuard:
    """Checks that a migration which reports migrated rows leaves fewer of them.

    It counts rarely: when more rows are reported than there were at the last count.

    :param count: returns the number of rows that remain.
    :ivar waiting: the result of the last count.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self.waiting = count()
        self._count = count
        self._done = 0
        self._fell = True

    def add(self, done: int) -> None:
        """Add a number of migrated rows.

        :raises NoProgress: the count did not decrease, twice in a row. Once can be the effect
            of a cell that answers again.
        """
        self._done += done
        if self._done <= self.waiting + _SLACK:
            return
        waiting, fell = self._count(), self._fell
        self._fell = waiting < self.waiting
        if not (fell or self._fell):
            raise NoProgress(self._done, waiting)
        self.waiting, self._done = waiting, 0


@dataclasses.dataclass(slots=True)
class RunResult:
    """The result of a run.

    :ivar counts: {migration: (found, done)}, summed over all batches.
    """

    counts: dict[str, tuple[int, int]]
    exit_code: int = DONE


def list_migrations(services: Services) -> Mapping[str, Migration]:
    """Return all migrations by the name that operators see, in the order in which they run."""
    cells, compute_nodes = services.cells, services.compute_nodes
    return {
        "create_incomplete_consumers": Migration(
            functools.partial(missing_consumers.create_incomplete, owners=services.owners),
            missing_consumers.count),
        "sum_up_usage_counters": Migration(
            usage_counters.sum_up, usage_counters.count_not_summed_up),
        "keep_fullness_of_limits": Migration(
            limit_nodes.keep_fullness, limit_nodes.count_fullness_not_kept),
        "protect_slot_providers": Migration(
            slot_providers.protect, slot_providers.count_unprotected),
        "populate_queued_for_delete": Migration(
            functools.partial(backfill.populate_queued_for_delete, cells=cells),
            functools.partial(backfill.count_without_queued_for_delete, cells=cells)),
        "populate_user_id": Migration(
            functools.partial(backfill.populate_user_id, cells=cells),
            functools.partial(backfill.count_without_user_id, cells=cells)),
        "migrate_compute_nodes": Migration(
            functools.partial(nodes.migrate_compute_nodes, nodes=compute_nodes),
            functools.partial(nodes.count_waiting, nodes=compute_nodes)),
    }


def run(
    ctx: Context,
    max_count: int | None,
    say: Callable[[str], None],
    migrations: Mapping[str, Migration],
    report: Report = lambda name, done, waiting: None,
) -> RunResult:
    """Run the migrations until no row is migrated any more, or once for ``max_count`` rows.

    A migration that makes no progress is stopped while the others continue; the run has then
    failed.

    :param max_count: None: run batches of ``BATCH`` rows until the end.
    :param say: called with a line for each batch that found rows, and for each error.
    :param report: called after each batch with the name of its migration, the number of rows
        that it migrated in this run, and the number of rows at the start; not called if that
        is 0, or if ``max_count`` bounds the run.
    """
    if max_count is None:
        say(f"Running batches of {BATCH} until complete")
    run = _Run(ctx, say, dict(migrations), report, counts=max_count is None)
    while True:
        done, failed = run.batch(max_count or BATCH)
        if max_count is not None or not done:
            break
    if (failed and not (max_count is not None and done)) or run.stopped:
        run.outcome.exit_code = FAILED
    elif done:
        run.outcome.exit_code = MORE
    return run.outcome


class _Run:
    """A run of migrations.

    :param counts: whether to check the progress by counting rows.
    :ivar stopped: whether a migration was stopped because it made no progress.
    """

    def __init__(
        self, ctx: Context, say: Callable[[str], None], migrations: dict[str, Migration],
        report: Report, *, counts: bool,
    ) -> None:
        self.outcome = RunResult({})
        self.stopped = False
        self._ctx = ctx
        self._say = say
        self._migrations = migrations
        self._report = report
        self._counts = counts
        self._progress: dict[str, ProgressGuard] = {}
        self._waited: dict[str, int] = {}

    def batch(self, size: int) -> tuple[int, bool]:
        """Run each migration once, until ``size`` rows in total are migrated.

        :returns: the number of migrated rows, and whether a migration failed.
        """
        ran, failed = 0, False
        for name in list(self._migrations):
            found, done = 0, 0
            try:
                found, done = self._migrate(name, size - ran)
            except NoProgress as error:
                self._say(f"{name} failed: {error}")
                del self._migrations[name]
                self.stopped = True
            except Exception as error:
                LOG.debug("%s failed", name, exc_info=True)
                self._say(f"Error attempting to run {name}: {str(error).partition(chr(10))[0]}")
                failed = True
            if found:
                self._say(f"{found} rows matched query {name}, {done} migrated")
            total_found, total_done = self.outcome.counts.get(name, (0, 0))
            self.outcome.counts[name] = total_found + found, total_done + done
            if self._waited.get(name):
                self._report(name, total_done + done, self._waited[name])
            ran += done
            if ran >= size:
                break
        return ran, failed

    def _migrate(self, name: str, size: int) -> tuple[int, int]:
        """Run one batch of a migration.

        :raises NoProgress: the batches so far did not reduce the number of rows.
        """
        migration = self._migrations[name]
        if self._counts and name not in self._progress:
            self._progress[name] = ProgressGuard(lambda: migration.count(self._ctx))
            self._waited[name] = self._progress[name].waiting
        found, done = migration.migrate(self._ctx, size)
        if self._counts:
            self._progress[name].add(done)
        return found, done


def render_table(outcome: RunResult) -> Iterator[str]:
    """Yield the lines of a table with a row for each migration that ran."""
    rows = [("Migration", "Total Found", "Completed")]
    rows += [(name, str(found), str(done)) for name, (found, done) in outcome.counts.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield rule
    for number, row in enumerate(rows):
        yield "|" + "|".join(f" {cell:^{width}} " for cell, width in zip(
            row, widths, strict=True)) + "|"
        if number == 0:
            yield rule
    yield rule
