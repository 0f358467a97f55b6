"""``python -m benchmarks.page``: put the committed results into doc/performance.md.

Only what stands between the page's two marks is written; a test sees to it that
page and results say the same.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ROOT = pathlib.Path(__file__).parent.parent
PAGE = _ROOT / "doc" / "performance.md"
RESULTS = _ROOT / "benchmarks" / "results"
BEGIN = "<!-- written by benchmarks.page -->"
END = "<!-- end -->"

Document = Mapping[str, Any]


def main() -> int:
    """Write the page."""
    PAGE.write_text(with_results(PAGE.read_text(), load()))
    return 0


def load() -> list[Document]:
    """Return the committed results, one document for each database."""
    return [json.loads((RESULTS / f"{kind}.json").read_text())
            for kind in ("postgresql", "mysql")]


def with_results(page: str, documents: Sequence[Document]) -> str:
    """Return the page with these results in it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *_results(documents), "", END + after])


def _results(documents: Sequence[Document]) -> Iterator[str]:
    yield from _table(
        ["work", "at least", *(document["database"] for document in documents),
         "ours, ms of processor: server + database"],
        _rows(documents))
    yield ""
    yield from _table(
        ["how cost grows", "at most", *(document["database"] for document in documents)],
        _growth(documents))
    yield ""
    machine = documents[0]["machine"]
    packages = {**machine["packages"]}
    yield (f"Machine: {machine['cores']} cores ({machine['processor']}), "
           f"{machine['memory_gib']:g} GiB, {machine['system']}, Python {machine['python']}; "
           f"{', '.join(f'{name} {version}' for name, version in packages.items())}.")
    yield ("Upstream: " + ", ".join(
        f"{name} {version}" for name, version in documents[0]["upstream"].items()) + ".")


def _rows(documents: Sequence[Document]) -> Iterator[list[str]]:
    found = [{(row["name"], row["clients"]): row for row in document["rows"]}
             for document in documents]
    titles = {row["name"]: row for document in documents for row in document["rows"]}
    for name, first in titles.items():
        each = [[row for (named, _), row in one.items() if named == name] for one in found]
        yield [first["title"], _least(first), *(_measured(rows) for rows in each),
               _cost(each[0] or each[1])]


def _least(row: Document) -> str:
    if row["floor"]:
        return f"{row['floor']:g} ×"
    if row["p95_bound_ms"]:
        return f"p95 {row['p95_bound_ms']:g} ms"
    return "exact" if row["met"] is not None else ""


def _measured(rows: Sequence[Document]) -> str:
    """Return the ratios of a row, one for each number of clients."""
    parts = []
    for row in rows:
        if row["p95_bound_ms"]:
            p95 = statistics.median(one["p95_ms"] for one in row["ours"])
            parts.append(f"p95 {p95:.1f} ms")
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


def _cost(rows: Sequence[Document]) -> str:
    row = rows[-1]
    return " + ".join(
        f"{statistics.median(one['cpu_ms'][part] for one in row['ours']):.2f}"
        for part in ("server", "database"))


def _growth(documents: Sequence[Document]) -> Iterator[list[str]]:
    names = {found["name"]: found for document in documents for found in document["growth"]}
    for name, first in names.items():
        values = [next((f"{found['value']:.2f}" if found["value"] < 100 else
                        f"{found['value']:.0f}"
                        for found in document["growth"] if found["name"] == name), "")
                  for document in documents]
        yield [first["title"], f"{first['bound']:g}", *values]


def _table(head: Sequence[str], rows: Iterator[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _number(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"


if __name__ == "__main__":
    sys.exit(main())
