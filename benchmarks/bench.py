"""What rows of ``growth`` are measured with: services of ours on datasets of several sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import sqlalchemy as sa

from benchmarks import (
    cells,
    client,
    databases,
    datasets,
    decisions,
    filling,
    leases,
    limits,
    servers,
)
from benchmarks.lessor import DATASETS, Lessor

#: A number, and those that it was made from.
Found = tuple[float, Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Growth:
    """One number that must not grow.

    :ivar bound: None: it is only shown.
    :ivar detail: the numbers that it was made from.
    """

    name: str
    title: str
    value: float
    bound: float | None
    detail: Mapping[str, float]

    @property
    def met(self) -> bool | None:
        """Whether the number keeps to its bound; None when it has none."""
        return None if self.bound is None else self.value <= self.bound


@dataclasses.dataclass(frozen=True)
class Measure:
    """What is measured, how often, and what must come out.

    :ivar bound: None: it is only shown.
    :ivar run: is handed the rounds.
    """

    title: str
    bound: databases.Bound
    rounds: int
    run: Callable[[Bench, int], Found]


class Bench:
    """Services of ours on copies of datasets of several sizes.

    :ivar starts: medians of cold starts, once they were measured.
    """

    def __init__(
        self,
        server: databases.Server,
        keeper: filling.Keeper,
        folder: pathlib.Path,
        ours: servers.Ours,
        scale: float,
        turn_seconds: float,
    ) -> None:
        """Serve nothing yet.

        :param turn_seconds: of those that measure claims per second.
        """
        self.kind = server.kind
        self._server = server
        self._keeper = keeper
        self._folder = folder
        self._ours = ours
        self._scale = scale
        self.turn_seconds = turn_seconds
        self.starts: Mapping[str, float] | None = None
        self._open = contextlib.ExitStack()
        self._lessors: dict[str, tuple[client.Target, leases.Dataset]] = {}

    def close(self) -> None:
        """Stop what serves still."""
        self._open.close()

    def dataset(self, hosts: int, shape: str = "flat") -> datasets.Dataset:
        """Return the dataset of so many hosts, in this run's scale."""
        return datasets.Dataset(shape, hosts).scaled(self._scale)

    def tree(self, projects: int) -> limits.Dataset:
        """Return the tree of so many projects, in this run's scale."""
        return limits.Dataset("tree", projects).scaled(self._scale)

    def trees(self, count: int) -> limits.Dataset:
        """Return so many trees of projects beside 1,000 hosts, in this run's scale."""
        return limits.Dataset("trees", count * limits.TREE, hosts=1000).scaled(self._scale)

    def holding(self, allocations: int) -> datasets.Dataset:
        """Return 1,000 hosts with so many allocations on them, in this run's scale."""
        return datasets.Dataset("flat", 1000, allocations=allocations).scaled(self._scale)

    def leased(self, size: str) -> leases.Dataset:
        """Return a dataset of leases, by its key in ``DATASETS``, in this run's scale."""
        return DATASETS[size].scaled(self._scale)

    def lessor_of(self, size: str) -> tuple[client.Target, leases.Dataset]:
        """Return the service on a dataset of leases that all rows ask which want this one."""
        if size not in self._lessors:
            dataset = self.leased(size)
            served = self._open.enter_context(self.serving(self.copy(dataset, f"_{size}")))
            self._lessors[size] = served.target.at(None), dataset
        return self._lessors[size]

    def copy(self, dataset: filling.Dataset, which: str = "") -> str:
        """Return a database with the dataset in it, beside those of other sizes.

        :param which: tells several of one dataset from each other.
        """
        return self._keeper.copy(self._ours, dataset, f"_{dataset.name}{which}")

    @contextlib.contextmanager
    def counting(self, count: int) -> Iterator[Mapping[str, cells.Counter]]:
        """Count in this process over so many cells, in this run's scale."""
        made = cells.Cells(self._server, self._folder, max(2, round(count * self._scale)))
        with made.counting(self._ours) as counters:
            yield counters

    @contextlib.contextmanager
    def deciding(self, database: str, dataset: limits.Dataset) -> Iterator[decisions.Decider]:
        """Decide in this process on claims of a project at the bottom of a tree."""
        decider = decisions.Decider(self._configured(database), dataset)
        try:
            yield decider
        finally:
            decider.close()

    @contextlib.contextmanager
    def lessor(self, database: str) -> Iterator[Lessor]:
        """Ask for leases in this process."""
        lessor = Lessor(self._configured(database))
        try:
            yield lessor
        finally:
            lessor.close()

    @contextlib.contextmanager
    def managing(self, database: str) -> Iterator[sa.Connection]:
        """Run a manager on a database; yield a connection to it."""
        with (self._ours.managing(database, self._server, self._folder / f"managing-{database}"),
              self._server.connect(database) as connection):
            yield connection

    def settle(self, database: str) -> None:
        """Do for a database that is served what its server may leave out: vacuum, analyze."""
        self._server.settle(database)

    def insert(self, database: str, rows: Iterable[leases.Lease]) -> None:
        """Write leases into a database."""
        leases.insert(self._server, database, rows)

    def _configured(self, database: str) -> pathlib.Path:
        """Return a ``placement.conf`` that names a database."""
        folder = self._folder / f"growth-{database}"
        self._ours.configure(folder, self._ours.connection(database, self._server))
        return folder / "placement.conf"

    @contextlib.contextmanager
    def serving(
        self, database: str, which: str = "a", workers: int = 1, settings: str = ""
    ) -> Iterator[servers.Served]:
        """Serve a database.

        :param settings: for ``placement.conf``.
        """
        folder = self._folder / f"growth-{database}-{which}"
        ours = servers.Ours(settings) if settings else self._ours
        served = ours.serve(database, self._server, folder, workers=workers)
        try:
            yield served
        finally:
            served.stop()
