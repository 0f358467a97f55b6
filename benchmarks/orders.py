"""How many servers each order of candidates places, and what it costs.

A site of three kinds of hosts receives a random sequence of requests, and each goes to the first
candidate, as from a client that trusts the order. Kinds and shapes follow published figures of
private clouds with some accelerators: most requests are small and need none, few need many, and
the ratio of memory to cores differs by a factor of eight. (Weng et al., USENIX ATC 2023, table 1;
Cortez et al., SOSP 2017, figures 2 to 4.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from oslo_config import cfg

from benchmarks import rows, workloads
from benchmarks.bench import Bench, Found
from placement_core.conf.least_stranded import GROUP, OPTIONS
from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_core.testing.candidate_order import MemoryTrees
from placement_plugins.candidate_order.fullness import Pack, Spread
from placement_plugins.candidate_order.least_stranded import LeastStranded
from placement_plugins.candidate_order.rotate import Rotate

_GIB = 1024
#: {amounts of a host: how many there are}
_HOSTS: Sequence[tuple[Mapping[str, int], int]] = (
    ({"VCPU": 64, "MEMORY_MB": 256 * _GIB, "PGPU": 0}, 240),
    ({"VCPU": 64, "MEMORY_MB": 1024 * _GIB, "PGPU": 0}, 80),
    ({"VCPU": 96, "MEMORY_MB": 768 * _GIB, "PGPU": 8}, 80),
)
#: (amounts of a request, how often it comes)
_SHAPES: Sequence[tuple[Mapping[str, int], int]] = (
    ({"VCPU": 2, "MEMORY_MB": 4 * _GIB}, 30),
    ({"VCPU": 4, "MEMORY_MB": 16 * _GIB}, 25),
    ({"VCPU": 8, "MEMORY_MB": 32 * _GIB}, 15),
    ({"VCPU": 16, "MEMORY_MB": 32 * _GIB}, 8),
    ({"VCPU": 8, "MEMORY_MB": 128 * _GIB}, 6),
    ({"VCPU": 32, "MEMORY_MB": 128 * _GIB}, 4),
    ({"VCPU": 12, "MEMORY_MB": 96 * _GIB, "PGPU": 1}, 3),
    ({"VCPU": 48, "MEMORY_MB": 384 * _GIB, "PGPU": 4}, 1),
    ({"VCPU": 96, "MEMORY_MB": 768 * _GIB, "PGPU": 8}, 1),
)
_CLASSES = ("VCPU", "MEMORY_MB", "PGPU")
_SEEDS = range(5)
#: What the time is measured with.
_HOSTS_TO_SORT, _LIMIT = 10_000, 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """How many servers each order placed before the first refusal, seed by seed."""

    placed: Mapping[str, Sequence[int]]

    def compare(self, order: str) -> float:
        """Return how many servers an order placed, compared to ``rotate``."""
        return statistics.median(
            ours / theirs for ours, theirs in zip(
                self.placed[order], self.placed["rotate"], strict=True))


def placed(bench: Bench, rounds: int) -> Found:
    """Servers placed before the first refusal, rotate / least_stranded."""
    trace = play()
    return 1 / trace.compare("least_stranded"), {
        name: statistics.median(numbers) for name, numbers in trace.placed.items()}


def took(bench: Bench, rounds: int) -> Found:
    """Processor time of 1000 candidates among 10,000 hosts, the dearest order / rotate.

    Nothing changes between searches.
    """
    return _compare_orders(bench, rounds, workloads.Reads(rows.candidates_paths(_LIMIT)))


def took_in_loop(bench: Bench, rounds: int) -> Found:
    """The same of the schedule loop, in which a host has changed before each search."""
    return _compare_orders(bench, rounds, workloads.ScheduleLoop(rows.candidates_paths(_LIMIT)))


def _compare_orders(bench: Bench, rounds: int, workload: workloads.Workload) -> Found:
    """Let services with different orders, on one database, take turns."""
    database = bench.copy(bench.dataset(_HOSTS_TO_SORT))
    found: dict[str, list[float]] = {name: [] for name in _make_orders()}
    with contextlib.ExitStack() as stack:
        targets = {name: stack.enter_context(bench.serving(
            database, name, settings=_configure(name))).target for name in found}
        for number in range(-1, rounds):  # the first turn loads the index
            for name, target in targets.items():
                measured = workload.measure(target, 1, bench.turn_seconds)
                if measured.problems:
                    raise RuntimeError(f"candidate_order = {name}: {measured.problems}")
                if number >= 0:
                    found[name].append(measured.cpu_ms["server"])
    medians = {f"{name}_ms": statistics.median(taken) for name, taken in found.items()}
    return max(medians.values()) / medians["rotate_ms"], medians


def _configure(order: str) -> str:
    """Return what stands in ``placement.conf`` for an order."""
    shapes = "".join(f"shape = {shape}\n" for shape in _write_shapes())
    return f"[placement]\ncandidate_order = {order}\n\n[{GROUP.name}]\n{shapes}"


def play() -> Trace:
    """Play the same requests with each order."""
    return Trace({name: [_place(order, seed) for seed in _SEEDS]
                  for name, order in _make_orders().items()})


def _make_orders() -> dict[str, CandidateOrder]:
    return {"rotate": Rotate(cfg.ConfigOpts()), "pack": Pack(cfg.ConfigOpts()),
            "spread": Spread(cfg.ConfigOpts()), "least_stranded": make_least_stranded()}


def make_least_stranded() -> LeastStranded:
    """Return the order that knows the shapes of the trace."""
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS, group=GROUP)
    conf.set_override("shape", _write_shapes(), GROUP.name)
    return LeastStranded(conf)


def _write_shapes() -> list[str]:
    """Return the shapes of the trace as the option has them."""
    return [
        ",".join(f"{name}:{amount}" for name, amount in [*amounts.items(), ("weight", weight)])
        for amounts, weight in _SHAPES]


def _place(order: CandidateOrder, seed: int) -> int:
    """Return how many servers fit before one does not."""
    free = {name: np.repeat([amounts[name] for amounts, _ in _HOSTS],
                            [count for _, count in _HOSTS]) for name in _CLASSES}
    shuffled = np.random.default_rng(seed).permutation(len(free["VCPU"]))
    free = {name: amounts[shuffled] for name, amounts in free.items()}
    for number, request in enumerate(_draw_requests(seed)):
        fitting = np.flatnonzero(np.logical_and.reduce(
            [free[name] >= amount for name, amount in request.items()]))
        if not len(fitting):
            return number
        ranks = order.rank(MemoryTrees(
            {name: free[name][fitting] for name in _CLASSES}, request))
        chosen = fitting[0 if ranks is None else int(np.argmin(ranks))]
        for name, amount in request.items():
            free[name][chosen] -= amount
    raise AssertionError("requests have no end")


def _draw_requests(seed: int) -> Iterator[Mapping[str, int]]:
    drawn = random.Random(seed)
    shapes, weights = zip(*_SHAPES, strict=True)
    while True:
        yield from drawn.choices(shapes, weights, k=1000)
