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
import traceback
from collections.abc import Callable, Mapping, Sequence

from benchmarks import (
    compare,
    databases,
    filling,
    growth,
    machine,
    page,
    plot,
    report,
    rows,
    runs,
    servers,
)
from benchmarks.bench import Bench

_BUILD = servers.ROOT / "build" / "bench"
_RESULTS = page.RESULTS
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
    """Run all rows on one kind of database; say whether all was measured and met."""
    server = databases.server(kind, options.build / "sqlite")
    if server is None:
        sys.exit(f"{kind}: set {databases.VARIABLES[kind]} to the URL of a server's database")
    run = _open_run(kind, server, peers, options)
    names = [*(row.name for row in chosen), *growing]
    print(f"{server.version()}, {servers.WORKERS} workers of {servers.OUR_THREADS} threads "
          f"(others: {servers.THREADS}), pairs of {options.seconds:g} s turns\n{report.head()}",
          flush=True)
    # What was loaded stays for the run that continues this one, if it ends early.
    keeper = filling.Keeper(server, options.build, keep=True)
    try:
        _run(_Saver(run, keeper, names, kind), server, chosen, growing, peers, options)
        failed = [name for name in names if run.read(name) is None]
        keeper.keep = options.keep or bool(failed)
    finally:
        keeper.close()
    document = run.assemble(names)
    _write(document, kind, run, options)
    if failed:
        print(f"{kind}: not measured: {', '.join(failed)}; --resume tries again", file=sys.stderr)
    return not failed and all(
        row["met"] is not False for row in [*document["rows"], *document["growth"]])


def _open_run(
    kind: str, server: databases.Server, peers: Mapping[str, servers.Peer],
    options: argparse.Namespace,
) -> runs.Run:
    """Begin a run, or open the one that is to be continued."""
    conditions = {
        "commit": runs.describe_code(),
        "database": server.version(),
        "machine": machine.describe(),
        **{name: peers[name].versions() if name in peers else None for name in servers.PEERS},
        "workers": servers.WORKERS,
        "threads": {"ours": servers.OUR_THREADS, "others": servers.THREADS},
        "pairs": options.pairs,
        "turn_seconds": options.seconds,
        "budget_seconds": options.budget,
        "clients": options.clients,
        "rounds": options.rounds,
        "scale": options.scale,
    }
    if options.resume:
        try:
            return runs.Run.resume(options.build, kind, conditions)
        except runs.NothingToResume as error:
            print(f"{error}: a new one begins", file=sys.stderr)
    return runs.Run.begin(options.build, kind, conditions)


def _run(
    saver: _Saver,
    server: databases.Server,
    chosen: Sequence[rows.Row],
    growing: Sequence[str],
    peers: Mapping[str, servers.Peer],
    options: argparse.Namespace,
) -> None:
    """Measure row after row."""
    ours = servers.Ours()
    arena = compare.Arena(server, saver.keeper, options.build, ours, peers)
    with contextlib.closing(arena):
        for row in chosen:
            saver.measure(row.name, lambda row=row: _compare(arena, row, options))
    bench = Bench(
        server, saver.keeper, options.build, ours, options.scale, options.seconds)
    with contextlib.closing(bench):
        for name in growing:
            saver.measure(name, lambda name=name: _grow(bench, name, options))


def _compare(
    arena: compare.Arena, row: rows.Row, options: argparse.Namespace
) -> runs.Document:
    """Measure a row at each of its concurrencies."""
    plan = compare.Plan(options.pairs, options.seconds, options.budget, options.scale)
    measured = []
    try:
        for result in compare.run(arena, row, options.clients, plan):
            measured.append(report.render_row(result))
            print(report.line(result), flush=True)
            if result.ratios:
                print(report.pairs(result), flush=True)
    except BaseException:
        # The next row is not measured with what is left of this one.
        arena.close()
        raise
    return {"rows": measured, "growth": []}


def _grow(bench: Bench, name: str, options: argparse.Namespace) -> runs.Document:
    """Measure how something grows."""
    grown = growth.measure(name, bench, options.rounds)
    print(report.growth_line(grown), flush=True)
    return {"rows": [], "growth": [report.render_growth(grown)]}


class _Saver:
    """Saves each row once it is measured, and says how far the run has come.

    :ivar keeper: of the datasets.
    """

    def __init__(
        self, run: runs.Run, keeper: filling.Keeper, names: Sequence[str], kind: str
    ) -> None:
        """Take a run of which some rows may be measured already.

        :param names: of all rows.
        """
        self.keeper = keeper
        self._run = run
        self._names = names
        self._kind = kind
        self._seconds = {name: part["seconds"] for name in names if (part := run.read(name))}
        published = _RESULTS / f"{kind}.json"
        self._before: dict[str, float] = (
            json.loads(published.read_text()).get("seconds", {}) if published.exists() else {})
        self._print_progress()

    def measure(self, name: str, measure: Callable[[], runs.Document]) -> None:
        """Measure a row, unless it is measured already; one that fails is left out."""
        if name in self._seconds:
            return
        started, load = time.monotonic(), os.getloadavg()[0]
        self.keeper.said.clear()
        try:
            row = measure()
        except Exception:  # noqa: BLE001 - other rows may be measured still
            print(f"{name} failed:", file=sys.stderr)
            traceback.print_exc()
            return
        self._seconds[name] = time.monotonic() - started
        self._run.save(name, {
            **row, "seconds": self._seconds[name], "loading": list(self.keeper.said),
            # Before and after: what else the machine had to do.
            "load_average": [load, os.getloadavg()[0]]})
        for text in self.keeper.said:
            print(text)
        self._print_progress()

    def _print_progress(self) -> None:
        print(f"{self._kind} "
              f"{runs.describe_progress(self._names, self._seconds, self._before)}",
              file=sys.stderr, flush=True)


def _write(
    document: runs.Document, kind: str, run: runs.Run, options: argparse.Namespace
) -> None:
    """Write the results, and a picture of them.

    Those that the page cannot be made of stay with the run, unless a folder is named.
    """
    faults = page.list_faults(document)
    folder = options.results or (run.folder if faults else _RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{kind}-{options.name}.json" if options.name else f"{kind}.json")
    runs.write(path, document)
    print(f"written: {path.name}")
    if faults and not options.results:
        print(f"{kind}: no results for the page: {'; '.join(faults)}", file=sys.stderr)
    picture = path.with_suffix(".svg")
    title = f"placement-core, OpenStack Placement and Keystone on {document['database']}"
    if plot.draw(document["rows"], title, picture):
        print(f"drawn: {picture.name}")


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
    add("--results", type=pathlib.Path,
        help="where JSON and plot go (default: benchmarks/results if all rows are measured, else "
        "the folder of the run)")
    add("--resume", action="store_true",
        help="continue the last run of the same commit and options: measure what it lacks")
    add("--name", help="in the name of the written files, behind the kind of database")
    return parser


def _absolute(text: str) -> pathlib.Path:
    # Services run in folders of their own.
    return pathlib.Path(text).absolute()


if __name__ == "__main__":
    # What is served and kept is put away at the end, also at an early one.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
