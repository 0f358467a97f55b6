"""How the cost of ours grows with the world: ratios of two sizes in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping

from benchmarks import client, databases, filling, processes, rows, servers, worlds


@dataclasses.dataclass(frozen=True)
class Growth:
    """One number that must not grow.

    :ivar detail: the numbers that it was made from.
    """

    name: str
    title: str
    value: float
    bound: float
    detail: Mapping[str, float]

    @property
    def met(self) -> bool:
        """Whether the number keeps to its bound."""
        return self.value <= self.bound


class Bench:
    """Services of ours on copies of flat worlds of several sizes."""

    def __init__(
        self,
        server: databases.Server,
        keeper: filling.Keeper,
        folder: pathlib.Path,
        ours: servers.Side,
        scale: float,
    ) -> None:
        self._server = server
        self._keeper = keeper
        self._folder = folder
        self._ours = ours
        self._scale = scale

    def world(self, hosts: int) -> worlds.World:
        """Return the flat world of so many hosts, in this run's scale."""
        return worlds.World("flat", hosts).scaled(self._scale)

    def copy(self, world: worlds.World) -> str:
        """Return a database with the world in it, beside those of other sizes."""
        return self._keeper.copy(self._ours, world, f"_{world.hosts}")

    @contextlib.contextmanager
    def serving(
        self, database: str, which: str = "a", workers: int = 1
    ) -> Iterator[servers.Served]:
        """Serve a database."""
        folder = self._folder / f"growth-{database}-{which}"
        served = self._ours.serve(database, self._server, folder, workers=workers)
        try:
            yield served
        finally:
            served.stop()


def change(bench: Bench, rounds: int) -> Growth:
    """One change on one worker, then a read on another: 100,000 hosts against 1,000."""
    sizes = {"1k": bench.world(1000), "100k": bench.world(100_000)}
    writes: dict[str, list[float]] = {size: [] for size in sizes}
    reads: dict[str, list[float]] = {size: [] for size in sizes}
    with contextlib.ExitStack() as stack:
        pairs = {}
        for size, world in sizes.items():
            database = bench.copy(world)
            pairs[size] = [
                _Connection(stack.enter_context(bench.serving(database, which)).target)
                for which in ("writer", "reader")]
        for number in range(-3, rounds):  # the first ones load the index
            for size, world in sizes.items():
                writer, reader = pairs[size]
                wrote = writer.timed("PUT", f"/allocations/{worlds.uid('change', number)}",
                                     filling.allocation(world.host(number % world.hosts),
                                                        worlds.CLAIM, "bench-change"))
                read = reader.timed(
                    "GET", f"/allocation_candidates?resources=VCPU:{number % 4 + 1}&limit=50")
                if number >= 0:
                    writes[size].append(wrote)
                    reads[size].append(read)
    medians = {
        **{f"write_ms_{size}": statistics.median(found) for size, found in writes.items()},
        **{f"read_ms_{size}": statistics.median(found) for size, found in reads.items()},
    }
    both = {size: medians[f"write_ms_{size}"] + medians[f"read_ms_{size}"] for size in sizes}
    medians["ratio_of_the_reads"] = medians["read_ms_100k"] / medians["read_ms_1k"]
    return Growth(
        "growth-change", "one change and a read on another worker, 100,000 / 1,000 hosts",
        both["100k"] / both["1k"], 2, medians)


def start(bench: Bench, rounds: int) -> Growth:
    """The first candidates of a new worker, which loads the index: 100,000 / 10,000 hosts.

    Starting the process takes longer than loading 10,000 hosts, and as long whatever
    the world: it would hide what grows, so it is not part of the ratio.
    """
    sizes = {"10k": bench.world(10_000), "100k": bench.world(100_000)}
    copies = {size: bench.copy(world) for size, world in sizes.items()}
    seconds: dict[str, list[float]] = {size: [] for size in sizes}
    for _ in range(rounds):
        for size, database in copies.items():
            with bench.serving(database) as served:
                served.settle()
                started = time.monotonic()
                served.target.must("GET", "/allocation_candidates?resources=VCPU:1&limit=1")
                seconds[size].append(time.monotonic() - started)
    medians = {f"seconds_{size}": statistics.median(found) for size, found in seconds.items()}
    return Growth(
        "growth-start", "cold start: the first candidates of a new worker, 100,000 / 10,000 hosts",
        medians["seconds_100k"] / medians["seconds_10k"], 12, medians)


def memory(bench: Bench, rounds: int) -> Growth:
    """Resident memory of a worker at 100,000 hosts, after reads and changes."""
    database = bench.copy(bench.world(100_000))
    world = bench.world(100_000)
    paths = rows.candidates_paths(1000) + rows.candidates_paths(50)
    with bench.serving(database, workers=servers.WORKERS) as served:
        for number in range(rounds):
            claim = filling.allocation(world.host(number), worlds.CLAIM, "bench-memory")
            served.target.must("PUT", f"/allocations/{worlds.uid('memory', number)}", claim)
            served.target.drive([served.target.request("GET", path) for path in paths], 8)
        workers = [processes.resident_mib(pid) for pid in processes.tree(served.process.pid)
                   if pid != served.process.pid]
    # multiprocessing has a small helper process of its own.
    biggest = sorted(workers, key=lambda sizes: sizes["rss"])[-servers.WORKERS:]
    return Growth("growth-memory", "resident memory of a worker at 100,000 hosts, MiB",
                  max(sizes["rss"] for sizes in biggest), 500,
                  {f"{name}_mib_worker_{number}": sizes[name]
                   for number, sizes in enumerate(biggest) for name in ("rss", "pss")})


#: By the name of the row: what measures it, and how many rounds it wants.
MEASURES: Mapping[str, tuple[Callable[[Bench, int], Growth], int]] = {
    "growth-change": (change, 150),
    "growth-start": (start, 5),
    "growth-memory": (memory, 10),
}


class _Connection:
    """One kept-alive connection, on which single requests are timed."""

    def __init__(self, target: client.Target) -> None:
        self._target = target
        self._connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=120)

    def timed(self, method: str, path: str, body: object = None) -> float:
        """Send one request; return its milliseconds."""
        headers = self._target.headers()
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body)
        started = time.perf_counter()
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        received = answer.read()
        taken = (time.perf_counter() - started) * 1000
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {received[:300]!r}")
        return taken
