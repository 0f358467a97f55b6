"""``python -m benchmarks``: measure ours against Placement and Keystone; ``make bench``."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import (
    compare,
    databases,
    filling,
    growth,
    machine,
    plot,
    report,
    rows,
    servers,
)
from benchmarks.bench import Bench, Growth

_BUILD = servers.ROOT / "build" / "bench"
_RESULTS = pathlib.Path(__file__).parent / "results"
_KINDS = ("postgresql", "mysql", "sqlite")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return 1 when something measured falls short."""
    options = _parser().parse_args(arguments)
    if options.list:
        for row in rows.ROWS:
            print(f"{row.name:24s} {row.title}")
        for name, measure in growth.MEASURES.items():
            print(f"{name:24s} {measure.title}")
        return 0
    chosen = [row for row in rows.ROWS
              if _wanted(row.name, options.row) and row.dataset.hosts <= options.largest]
    growing = [name for name in growth.MEASURES
               if _wanted(name, options.row) and options.largest >= 100_000]
    wanted = {row.peer for row in chosen if not (row.alone or options.alone)}
    peers = {name: _peer(name, options) for name in servers.PEERS if name in wanted}
    good = True
    for kind in options.database or _present():
        good &= _measure(kind, chosen, growing, peers, options)
    return 0 if good else 1


def _peer(name: str, options: argparse.Namespace) -> servers.Peer:
    """Return a peer in the environment that was named, or in one of its own."""
    peer = servers.PEERS[name]
    python = getattr(options, f"{name}_python")
    return peer(python or servers.install(peer.package, _BUILD / name))


def _measure(
    kind: str,
    chosen: Sequence[rows.Row],
    growing: Sequence[str],
    peers: Mapping[str, servers.Peer],
    options: argparse.Namespace,
) -> bool:
    """Run all rows on one kind of database; say whether all was met."""
    server = databases.server(kind, options.build / "sqlite")
    if server is None:
        sys.exit(f"{kind}: set {databases.VARIABLES[kind]} to the URL of a server's database")
    started = time.strftime("%Y-%m-%d %H:%M")
    loads = [os.getloadavg()[0]]
    version = server.version()
    ours = servers.Ours()
    results: list[compare.Result] = []
    grown: list[Growth] = []
    print(f"{version}, {servers.WORKERS} workers of {servers.OUR_THREADS} threads (others: "
          f"{servers.THREADS}), pairs of {options.seconds:g} s turns\n{report.head()}",
          flush=True)
    with _kept(server, options) as keeper:
        try:
            _run(server, keeper, chosen, growing, ours, peers, options, results, grown)
        finally:
            # A run that ends early keeps what it measured.
            if results or grown:
                _write({
                    "started": started,
                    "database": version,
                    "machine": machine.describe(),
                    **{name: peers[name].versions() if name in peers else None
                       for name in servers.PEERS},
                    "workers": servers.WORKERS,
                    "threads": {"ours": servers.OUR_THREADS, "others": servers.THREADS},
                    "turn_seconds": options.seconds,
                    "scale": options.scale,
                    # Before and after: what else the machine had to do.
                    "load_average": [*loads, os.getloadavg()[0]],
                    "loading": keeper.said,
                    **report.as_json(results, grown, started),
                }, kind, options)
    return all(found.met is not False for found in [*results, *grown])


def _run(
    server: databases.Server,
    keeper: filling.Keeper,
    chosen: Sequence[rows.Row],
    growing: Sequence[str],
    ours: servers.Ours,
    peers: Mapping[str, servers.Peer],
    options: argparse.Namespace,
    results: list[compare.Result],
    grown: list[Growth],
) -> None:
    """Measure row after row; each is in ``results`` or ``grown`` once it is done."""
    plan = compare.Plan(options.pairs, options.seconds, options.budget, options.scale)
    arena = compare.Arena(server, keeper, options.build, ours, peers)
    try:
        for row in chosen:
            for result in compare.run(arena, row, options.clients, plan):
                results.append(result)
                print(report.line(result), flush=True)
                if result.ratios:
                    print(report.pairs(result), flush=True)
    finally:
        arena.close()
    bench = Bench(
        server, keeper, options.build, ours, options.scale, options.seconds)
    try:
        for name in growing:
            grown.append(growth.measure(name, bench, options.rounds))
            print(report.growth_line(grown[-1]), flush=True)
    finally:
        bench.close()
    for text in keeper.said:
        print(text)


def _write(
    document: dict[str, Any],
    kind: str,
    options: argparse.Namespace,
) -> None:
    options.results.mkdir(parents=True, exist_ok=True)
    name = options.results / (f"{kind}-{options.name}" if options.name else kind)
    path = name.with_name(name.name + ".json")
    if options.add and path.exists():
        before = json.loads(path.read_text())
        for peer in servers.PEERS:
            document[peer] = document[peer] or before.get(peer)
        for part in ("rows", "growth"):
            again = {found["name"] for found in document[part]}
            document[part] = [
                *(found for found in before[part] if found["name"] not in again),
                *document[part]]
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written: {path.name}")
    picture = name.with_name(name.name + ".svg")
    title = f"placement-core, OpenStack Placement and Keystone on {document['database']}"
    if plot.draw(document["rows"], title, picture):
        print(f"drawn: {picture.name}")


@contextlib.contextmanager
def _kept(server: databases.Server, options: argparse.Namespace) -> Iterator[filling.Keeper]:
    keeper = filling.Keeper(server, options.build, keep=options.keep)
    try:
        yield keeper
    finally:
        keeper.close()


def _present() -> list[str]:
    """Return the kinds of database whose server is named; without any, SQLite."""
    found = [kind for kind in databases.VARIABLES if databases.is_named(kind)]
    return found or ["sqlite"]


def _wanted(name: str, patterns: Sequence[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    add = parser.add_argument
    add("--list", action="store_true", help="print the rows and do nothing else")
    add("--row", action="append", metavar="PATTERN", help="only these rows, such as 'claims-*'")
    add("--largest", type=int, default=100_000, metavar="HOSTS", help="no rows of larger datasets")
    add("--database", action="append", choices=_KINDS,
        help="default: those whose PLACEMENT_TEST_… variable is set; SQLite without any")
    add("--pairs", type=int, default=5, help="turns of each side (default: 5)")
    add("--seconds", type=float, default=5, help="of one turn (default: 5)")
    add("--budget", type=float, default=180, metavar="SECONDS",
        help="a row at one concurrency begins no pair after this (default: 180)")
    add("--clients", type=int, nargs="+", help="instead of each row's own")
    add("--alone", action="store_true", help="ours only")
    add("--keep", action="store_true",
        help="leave the loaded datasets in the database server for the next run")
    add("--scale", type=float, default=1.0, help="multiplies the size of datasets: to try things")
    add("--rounds", type=int, help="at most so many rounds of the growth-… rows")
    for name, peer in servers.PEERS.items():
        add(f"--{name}-python", type=pathlib.Path, metavar="PATH",
            help=f"interpreter of an environment that has {peer.package.partition('==')[0]}, "
            "instead of installing it")
    add("--build", type=_absolute, default=_BUILD, help="where logs and SQLite files go")
    add("--results", type=pathlib.Path, default=_RESULTS, help="where JSON and plot go")
    add("--add", action="store_true",
        help="keep what an earlier run wrote of other rows")
    add("--name", help="in the name of the written files, behind the kind of database")
    return parser


def _absolute(text: str) -> pathlib.Path:
    # Services run in folders of their own.
    return pathlib.Path(text).absolute()


if __name__ == "__main__":
    # What is served and kept is put away at the end, also at an early one.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
