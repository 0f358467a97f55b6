"""``python -m benchmarks.profile``: where a worker's processor time goes.

Serves one row's dataset with one worker, keeps it busy with the row's workload,
samples the worker with py-spy, and prints the share of each layer. A sample is
charged to the layer of its innermost frame that belongs to one. Only the thread
that holds the interpreter is sampled: what waits, or runs in the kernel, is not.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping

from benchmarks import databases, filling, processes, rows, servers

#: The first that an innermost frame's file begins with names its layer.
LAYERS: Mapping[str, tuple[str, ...]] = {
    "search and answer": ("placement_core/placement/candidates",),
    "index: refresh": ("placement_core/placement/index", "placement_core/changes/vector"),
    "domain": ("placement_core/placement", "placement_core/limits", "placement_core/catalog"),
    "transactions, change log": ("placement_core/db", "placement_core/changes"),
    "our HTTP pipeline": ("placement_core",),
    "SQLAlchemy, oslo.db": ("sqlalchemy", "oslo_db"),
    "database driver": ("psycopg", "pymysql"),
    "Pyramid, WebOb": ("pyramid", "webob", "zope"),
    "log line": ("logging", "oslo_log", "oslo_context"),
    "HTTP server": ("granian",),
}
_OTHER = "other"


def main() -> int:
    """Profile the rows that were asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks.profile", description=__doc__)
    parser.add_argument("row", nargs="+", choices=[row.name for row in rows.ROWS], metavar="ROW")
    parser.add_argument("--database", choices=databases.VARIABLES, default="postgresql")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--keep", action="store_true", help="leave loaded datasets")
    parser.add_argument("--build", type=pathlib.Path, default=servers.ROOT / "build" / "bench")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    server = databases.server(options.database, options.build)
    if server is None:
        sys.exit(f"set {databases.VARIABLES[options.database]} to the URL of a database")
    keeper = filling.Keeper(server, options.build, keep=options.keep)
    try:
        found = {name: _profile(server, keeper, name, options) for name in options.row}
    finally:
        keeper.close()
    if options.format == "json":
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(_table(found)))
    return 0


def shares(samples: Iterable[str]) -> dict[str, float]:
    """Return the share of each layer, the largest first.

    :param samples: py-spy's raw format: ``frame;frame;… count``, outermost first,
        each frame ``function (file:line)``.
    """
    counts: collections.Counter[str] = collections.Counter()
    for sample in samples:
        stack, _, count = sample.rpartition(" ")
        counts[_layer(stack.split(";"))] += int(count)
    total = sum(counts.values())
    return {layer: count / total for layer, count in counts.most_common()}


def _layer(frames: list[str]) -> str:
    for frame in reversed(frames):
        file = frame.rpartition(" (")[2]
        for layer, beginnings in LAYERS.items():
            if file.startswith(beginnings):
                return layer
    return _OTHER


def _profile(
    server: databases.Server, keeper: filling.Keeper, name: str, options: argparse.Namespace
) -> dict[str, float]:
    row = next(row for row in rows.ROWS if row.name == name)
    side = servers.Ours()
    database = keeper.copy(side, row.dataset)
    served = side.serve(database, server, options.build / "profile", workers=1)
    try:
        served.settle()
        workload = row.workload(row.dataset)
        workload.prepare(served.target)
        # The other processes of the service only wait.
        worker = max(processes.tree(served.process.pid), key=lambda pid: (
            processes.resident_mib(pid)["rss"]))
        samples = _sampled(worker, options.seconds, lambda: workload.measure(
            served.target, options.clients, options.seconds + 1))
    finally:
        served.stop()
    return shares(samples.splitlines())


def _sampled(pid: int, seconds: float, work: Callable[[], object]) -> str:
    """Sample a process while it works; return py-spy's raw format."""
    with tempfile.TemporaryDirectory(prefix="placement-bench-") as folder:
        noted = pathlib.Path(folder, "samples")
        spying = subprocess.Popen(
            [str(pathlib.Path(sys.executable).with_name("py-spy")), "record", "--pid", str(pid),
             "--format", "raw", "--gil", "--rate", "500", "--duration", str(round(seconds)),
             "--output", str(noted)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        work()
        _, complaint = spying.communicate()
        if spying.returncode or not noted.exists():
            raise RuntimeError(f"py-spy failed: {complaint[-1000:]}")
        return noted.read_text()


def _table(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of a table: layers down, rows of the bench across."""
    layers = list(dict.fromkeys(
        layer for layer in (*LAYERS, _OTHER) if any(layer in one for one in found.values())))
    yield " ".join([f"{'processor time':26s}", *(f"{name:>22s}" for name in found)])
    for layer in layers:
        yield " ".join([f"{layer:26s}", *(
            f"{one.get(layer, 0):22.0%}" for one in found.values())])


if __name__ == "__main__":
    sys.exit(main())
