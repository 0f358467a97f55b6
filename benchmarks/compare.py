"""Turns of A (ours) and B (a row's peer) on the same dataset, and their ratios.

What one turn measures wanders with whatever else a machine does; the ratio of two
turns side by side wanders less. So the two alternate, and ratios are made pair by pair.
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import time
from collections.abc import Iterator, Mapping

from benchmarks import client, databases, filling, rows, servers, workloads

#: A row that the peer needs longer for than this in one turn is not measured so.
_LONGEST_TURN_SECONDS = 240


@dataclasses.dataclass(frozen=True)
class Plan:
    """How thoroughly to measure.

    :ivar seconds: of one turn.
    :ivar budget_seconds: after which a row gets no further pair.
    """

    pairs: int
    seconds: float
    budget_seconds: float
    scale: float = 1.0


@dataclasses.dataclass
class Result:
    """One row at one concurrency.

    :ivar floor: that of the row, with so many clients on this database.
    :ivar upstream: the peer's.
    :ivar ratios: ours / the peer's, of the rates, pair by pair.
    :ivar differs: in what the answers differ; None: they agree, or were not compared.
    :ivar skipped: why there are no numbers.
    """

    row: rows.Row
    dataset: filling.Dataset
    clients: int
    floor: float | None
    ours: list[workloads.Measurement] = dataclasses.field(default_factory=list)
    upstream: list[workloads.Measurement] = dataclasses.field(default_factory=list)
    ratios: list[float] = dataclasses.field(default_factory=list)
    compared: bool = False
    differs: str | None = None
    skipped: str | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def problems(self) -> list[str]:
        """What is wrong with ours."""
        found = {problem for measured in self.ours for problem in measured.problems}
        if self.differs:
            found.add(f"answers differ: {self.differs}")
        return sorted(found)

    @property
    def met(self) -> bool | None:
        """Whether the row's demands are met; None when it has none or was not measured."""
        if not self.ours:
            return None
        if self.problems:
            return False
        if self.floor and self.ratio is not None:
            return self.ratio >= self.floor
        if self.row.p95_ms:
            return statistics.median(one.p95_ms for one in self.ours) <= self.row.p95_ms
        if self.row.per_second:
            return statistics.median(one.rate for one in self.ours) >= self.row.per_second
        return True if self.row.exact else None


class Arena:
    """Both sides, served on copies of one dataset at a time."""

    def __init__(
        self,
        server: databases.Server,
        keeper: filling.Keeper,
        folder: pathlib.Path,
        ours: servers.Side,
        peers: Mapping[str, servers.Side],
    ) -> None:
        """Serve nothing yet.

        :param peers: by name; what is measured against one that is not there is
            measured alone.
        """
        self.kind = server.kind
        self._server = server
        self._keeper = keeper
        self._folder = folder
        self._ours = ours
        self._peers = peers
        self._served: list[servers.Served] = []
        self._setting: tuple[filling.Dataset, int, str | None] | None = None
        self._targets: list[client.Target] = []

    def targets(
        self, dataset: filling.Dataset, workers: int, peer: str | None
    ) -> list[client.Target]:
        """Return ours and, if there is one, the peer, with this dataset in them."""
        setting = (dataset, workers, peer)
        if self._setting and setting == (*self._setting[:2], None):
            # The peer, which has nothing to do then, is not worth a restart of ours.
            return self._targets[:1]
        if setting != self._setting:
            self.close()
            sides = [self._ours]
            if peer and peer in self._peers:
                sides.append(self._peers[peer])
            for side in sides:
                database = self._keeper.copy(side, dataset)
                self._served.append(side.serve(
                    database, self._server, self._folder / side.name, workers=workers))
            for served in self._served:
                served.settle()
            self._targets = [served.target for served in self._served]
            self._setting = setting
        return self._targets

    def close(self) -> None:
        """Stop what is served."""
        while self._served:
            self._served.pop().stop()
        self._setting = None


def run(
    arena: Arena, row: rows.Row, clients_wanted: tuple[int, ...] | None, plan: Plan
) -> Iterator[Result]:
    """Measure a row at each of its concurrencies."""
    dataset = row.dataset.scaled(plan.scale)
    targets = arena.targets(dataset, row.workers, None if row.alone else row.peer)
    workload = row.workload(dataset)
    alone = len(targets) == 1
    one = max(workload.prepare(target) for target in targets)
    compared = workload.comparable and not alone
    differs = workload.differ(*targets) if compared else None
    for clients in clients_wanted or row.clients:
        floor = row.find_floor(clients, arena.kind)
        result = Result(row, dataset, clients, floor, compared=compared, differs=differs)
        if one * clients / row.workers > _LONGEST_TURN_SECONDS:
            result.skipped = f"one answer of {row.peer} takes {one:.0f} s"
        else:
            _pairs(result, workload, targets, plan)
        yield result


def _pairs(
    result: Result, workload: workloads.Workload, targets: list[client.Target], plan: Plan
) -> None:
    started = time.monotonic()
    measured = [result.ours, result.upstream]
    for number in range(plan.pairs):
        if number and time.monotonic() - started > plan.budget_seconds:
            return
        order = range(len(targets)) if number % 2 == 0 else reversed(range(len(targets)))
        for side in order:
            measured[side].append(workload.measure(targets[side], result.clients, plan.seconds))
        if len(targets) == 2:
            # A side that did nothing good did less than one in the time it had.
            floor = 1 / max(plan.seconds, result.upstream[-1].elapsed)
            result.ratios.append(result.ours[-1].rate / max(result.upstream[-1].rate, floor))
