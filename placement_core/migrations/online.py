"""Data migrations that run beside the service, in batches.

A migration is a function ``(ctx, max_count) -> (found, done)``: it changes at
most ``max_count`` rows, may be repeated, and says how many rows were waiting when
it began and how many of them it finished. Found without done means that what is
left cannot be migrated.
Source: spec placement_api §7.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping

from placement_core.cells import gaps
from placement_core.compute import nodes
from placement_core.context import Context
from placement_core.placement import consumers
from placement_core.services import Services

LOG = logging.getLogger(__name__)

Migration = Callable[[Context, int], tuple[int, int]]

#: Rows in one batch when the operator sets no bound.
BATCH = 50

#: Exit codes: nothing is left, a bound was reached, errors and no progress,
#: and a bound that is no bound.
DONE, MORE, FAILED, INVALID = 0, 1, 2, 127


@dataclasses.dataclass(slots=True)
class Outcome:
    """What a run did.

    :ivar counts: {migration: (found, done)}, summed over its batches.
    """

    counts: dict[str, tuple[int, int]]
    exit_code: int = DONE


def migrations(services: Services) -> Mapping[str, Migration]:
    """Return every migration by the name operators see, in the order they run."""
    of_cells = {
        "populate_queued_for_delete": gaps.populate_queued_for_delete,
        "populate_user_id": gaps.populate_user_id,
    }
    return {
        "create_incomplete_consumers": consumers.create_incomplete,
        **{name: functools.partial(migration, cells=services.cells)
           for name, migration in of_cells.items()},
        "migrate_compute_nodes": functools.partial(
            nodes.migrate_compute_nodes, nodes=services.compute_nodes),
    }


def run(
    ctx: Context,
    max_count: int | None,
    say: Callable[[str], None],
    migrations: Mapping[str, Migration],
) -> Outcome:
    """Run the migrations until nothing moves any more, or ``max_count`` rows did.

    :param max_count: None runs batches of ``BATCH`` until the end.
    :param say: called with a line for each batch that found something.
    """
    if max_count is None:
        say(f"Running batches of {BATCH} until complete")
    outcome = Outcome({})
    while True:
        done, failed = _batch(ctx, max_count or BATCH, say, migrations, outcome)
        if max_count is not None or not done:
            break
    if failed and not (max_count is not None and done):
        outcome.exit_code = FAILED
    elif done:
        outcome.exit_code = MORE
    return outcome


def _batch(
    ctx: Context,
    size: int,
    say: Callable[[str], None],
    migrations: Mapping[str, Migration],
    outcome: Outcome,
) -> tuple[int, bool]:
    """Run each migration once, ``size`` rows between them.

    :returns: how many rows were migrated, and whether one of them failed.
    """
    ran, failed = 0, False
    for name, migration in migrations.items():
        try:
            found, done = migration(ctx, size - ran)
        except Exception as error:
            LOG.debug("%s failed", name, exc_info=True)
            say(f"Error attempting to run {name}: {str(error).partition(chr(10))[0]}")
            found, done, failed = 0, 0, True
        if found:
            say(f"{found} rows matched query {name}, {done} migrated")
        total_found, total_done = outcome.counts.get(name, (0, 0))
        outcome.counts[name] = total_found + found, total_done + done
        ran += done
        if ran >= size:
            break
    return ran, failed


def table(outcome: Outcome) -> Iterator[str]:
    """Draw what was done, one line for each migration that ran."""
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
