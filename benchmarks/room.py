"""How long it takes to say how often shapes fit."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks import datasets, filling, processes, rows
from benchmarks.bench import Bench, Found

#: What an operator configures, and a page of the site shows, at once.
_SHAPES = 10


def simple(bench: Bench, rounds: int) -> Found:
    """Ten shapes on 10,000 flat hosts."""
    return _ask(bench, bench.dataset(10_000), rows.simple, rounds)


def related(bench: Bench, rounds: int) -> Found:
    """Ten shapes of two groups in one subtree, on 1,000 trees of seven providers."""
    return _ask(bench, bench.dataset(1000, "tree"), rows.numa, rounds)


def _ask(
    bench: Bench, dataset: datasets.Dataset, shape: Callable[[int], str], rounds: int
) -> Found:
    """Return the milliseconds of processor that a worker takes for ten answers.

    Before each round something is claimed, so that no answer is one that was given already.
    """
    taken = []
    with bench.serving(bench.copy(dataset)) as served:
        target, pid = served.target, served.process.pid
        for number in range(-1, rounds):  # the first round loads the index
            target.must("PUT", f"/allocations/{datasets.uid('room', number)}", filling.allocation(
                dataset.host(number % dataset.hosts), {"DISK_GB": 10}, "bench-room"))
            target.must("GET", "/allocation_candidates?resources=DISK_GB:10&limit=1")
            before = processes.cpu_seconds(pid)
            for which in range(_SHAPES):
                found = target.must("GET", f"/capacity/v1/room/fits?{shape(which)}")
                if not found["fits"]:
                    raise RuntimeError(f"nothing fits: {found}")
            if number >= 0:
                taken.append(1000 * (processes.cpu_seconds(pid) - before))
    return statistics.mean(taken), {"ms_of_one": statistics.mean(taken) / _SHAPES}
