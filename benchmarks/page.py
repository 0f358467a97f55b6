"""``python -m benchmarks.page``: put the committed results into doc/performance.md.

Only what stands between the page's two marks is written; a test sees to it that
page and results say the same.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import databases, growth, rows, servers

_ROOT = pathlib.Path(__file__).parent.parent
PAGE = _ROOT / "doc" / "performance.md"
KINDS = ("postgresql", "mysql")
RESULTS = _ROOT / "benchmarks" / "results"
BEGIN = "<!-- written by benchmarks.page -->"
END = "<!-- end -->"

#: Rows that the committed results lack: the page says so of each. A row leaves this
#: set with the commit that brings its numbers; a test sees to that.
AWAITED: frozenset[str] = frozenset()
NOT_YET = "not measured yet"

Document = Mapping[str, Any]


def main() -> int:
    """Write the page; return 1 if the results are not of one complete run on each database."""
    documents = load()
    faults = [f"{document['database']}: {fault}"
              for document in documents for fault in list_faults(document)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    PAGE.write_text(with_results(PAGE.read_text(), documents))
    return 0


def list_faults(document: Document) -> list[str]:
    """Return why a page cannot be made of the results on a database; empty: it can."""
    faults = []
    if "commit" not in document:
        faults.append("the results do not say of which commit they are, as those of one run do")
    if document.get("scale", 1) != 1:
        faults.append(f"measured at scale {document['scale']:g}")
    measured = {*((row["name"], row["clients"]) for row in document["rows"]),
                *(row["name"] for row in document["growth"])}
    missing = [f"{row.name} ({clients} clients)" for row in rows.ROWS for clients in row.clients
               if row.name not in AWAITED and (row.name, clients) not in measured]
    missing += [name for name in growth.MEASURES
                if name not in AWAITED and name not in measured]
    if missing:
        faults.append(f"not measured: {', '.join(missing)}")
    return faults


def load() -> list[Document]:
    """Return the committed results, one document for each database."""
    return [json.loads((RESULTS / f"{kind}.json").read_text())
            for kind in KINDS]


def with_results(page: str, documents: Sequence[Document]) -> str:
    """Return the page with these results in it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *_results(documents), "", END + after])


def _results(documents: Sequence[Document]) -> Iterator[str]:
    for peer, work in (("upstream", "work, against OpenStack Placement"),
                       ("keystone", "work, against Keystone")):
        yield from _table(
            [work, "at least", *(document["database"] for document in documents),
             "ours, ms of processor: server + database"],
            _rows(documents, peer))
        yield ""
    yield from _table(
        ["how cost grows", "at most", *(document["database"] for document in documents)],
        _growth(documents))
    yield ""
    for document in documents:
        yield from (_describe_run(document), "")
    for peer in servers.PEERS:
        versions = documents[0].get(peer) or {}
        if versions:
            yield f"{peer.capitalize()}: " + ", ".join(
                f"{name} {version}" for name, version in versions.items()) + "."


def _describe_run(document: Document) -> str:
    """Return when, of what and on what the results of a database were measured."""
    machine = document["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (f"{document['database']}: commit {document['commit']}, {document['started']}, "
            f"{document['pairs']} pairs of {document['turn_seconds']:g} s turns, on "
            f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']:g} GiB, "
            f"{machine['system']}, Python {machine['python']}; {packages}.")


def _rows(documents: Sequence[Document], peer: str) -> Iterator[list[str]]:
    found = [{(row["name"], row["clients"]): row for row in document["rows"]
              if row.get("peer", "upstream") == peer} for document in documents]
    titles = {name: row for one in found for (name, _), row in one.items()}
    for name, first in titles.items():
        each = [[row for (named, _), row in one.items() if named == name] for one in found]
        # Rows that were measured before there was such a bound have none.
        least = _merge(_least({row["clients"]: row["floor"] for row in measured},
                              first["p95_bound_ms"], first.get("per_second_bound"),
                              exact=first["met"] is not None) for measured in each if measured)
        yield [first["title"], least,
               *(_measured(measured) or (NOT_YET if least else "") for measured in each),
               _cost(each[0] or each[1])]
    for row in rows.ROWS:
        if row.peer == peer and row.demanded and row.name not in titles:
            least = _merge(_least(
                {clients: row.find_floor(clients, kind) for clients in row.clients},
                row.p95_ms, row.per_second, exact=row.exact) for kind in KINDS)
            yield [row.title, least, *(NOT_YET for _ in documents), ""]


def _least(
    floors: Mapping[int, float | None], p95_ms: float | None, per_second: float | None, *,
    exact: bool,
) -> str:
    """Return what is asked of a row; nothing, of one that is only shown."""
    demanded = {clients: floor for clients, floor in sorted(floors.items()) if floor}
    if len(set(demanded.values())) == 1:
        return f"{next(iter(demanded.values())):g} ×"
    if demanded:
        return ", ".join(f"{floor:g} × ({clients})" for clients, floor in demanded.items())
    if p95_ms:
        return f"p95 {p95_ms:g} ms"
    if per_second:
        return f"{per_second:g}/s"
    return "exact" if exact else ""


def _measured(measured: Sequence[Document]) -> str:
    """Return the ratios of a row, one for each number of clients."""
    parts = []
    for row in measured:
        if row["p95_bound_ms"]:
            p95 = statistics.median(one["p95_ms"] for one in row["ours"])
            parts.append(f"p95 {p95:.1f} ms")
        elif row.get("per_second_bound"):
            rate = statistics.median(one["rate"] for one in row["ours"])
            parts.append(f"{rate:.1f}/s ({row['clients']})")
        elif "acknowledged" in row["ours"][0]["extra"]:
            held = [{one["extra"]["acknowledged"] for one in row[side]}
                    for side in ("ours", "upstream")]
            parts.append(" | ".join(
                f"{side} {', '.join(map(str, sorted(values)))}"
                for side, values in zip(("ours", "upstream"), held, strict=True)).replace(
                    "|", "/"))
        elif row["ratio_median"]:
            parts.append(f"{_number(row['ratio_median'])} × ({row['clients']})")
        if row["met"] is False:
            parts[-1] += " **not met**"
    return ", ".join(parts)


def _cost(measured: Sequence[Document]) -> str:
    row = measured[-1]
    return " + ".join(
        f"{statistics.median(one['cpu_ms'][part] for one in row['ours']):.2f}"
        for part in ("server", "database"))


def _growth(documents: Sequence[Document]) -> Iterator[list[str]]:
    names = {found["name"]: found for document in documents for found in document["growth"]}
    for name, first in names.items():
        values = [next((_grown(found) for found in document["growth"] if found["name"] == name),
                       NOT_YET) for document in documents]
        bounds = (found["bound"] for document in documents for found in document["growth"]
                  if found["name"] == name)
        yield [first["title"], _merge(map(_at_most, bounds)), *values]
    for name, measure in growth.MEASURES.items():
        if name not in names:
            bounds = (databases.find_bound(measure.bound, kind) for kind in KINDS)
            yield [measure.title, _merge(map(_at_most, bounds)), *(NOT_YET for _ in documents)]


def _grown(found: Document) -> str:
    value = f"{found['value']:.2f}" if found["value"] < 100 else f"{found['value']:.0f}"
    return f"{value} **not met**" if found["met"] is False else value


def _merge(bounds: Iterable[str]) -> str:
    """Return what is asked on each database, once if it is the same."""
    return " / ".join(dict.fromkeys(filter(None, bounds)))


def _at_most(bound: float | None) -> str:
    return "" if bound is None else f"{bound:g}"


def _table(head: Sequence[str], lines: Iterator[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in lines:
        yield f"| {' | '.join(row)} |"


def _number(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"


if __name__ == "__main__":
    sys.exit(main())
