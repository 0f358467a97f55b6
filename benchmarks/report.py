"""A run as lines on the terminal and as JSON."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence

from benchmarks import compare, workloads
from benchmarks.bench import Growth

_HEAD = (f"{'row':24s} {'clients':>7s} {'ours/s':>9s} {'peer/s':>10s} {'ratio':>8s} "
         f"{'[min .. max]':>19s} {'floor':>6s} {'p50 ms':>15s} {'cpu ms (server+database)':>27s}")


def head() -> str:
    """Return the line above the table."""
    return _HEAD


def line(result: compare.Result) -> str:
    """Return one row of the table, and below it what is wrong."""
    name = f"{result.row.name:24s} {result.clients:7d}"
    if result.skipped:
        return f"{name} not measured: {result.skipped}"
    ours, upstream = result.ours, result.upstream
    floor = f"{result.floor:g}" if result.floor else "-"
    parts = [
        name,
        f"{_median(ours, 'rate'):9.1f}",
        f"{_median(upstream, 'rate'):10.2f}" if upstream else f"{'-':>10s}",
        f"{result.ratio:8.1f}" if result.ratio else f"{'-':>8s}",
        f"{_spread(result.ratios):>19s}",
        f"{floor:>6s}",
        f"{_both(result, _p50):>15s}",
        f"{_both(result, _cpu):>27s}",
        {True: "met", False: "NOT MET", None: ""}[result.met],
    ]
    below = [f"    ours: {problem}" for problem in result.problems]
    below += sorted({f"    {result.row.peer}: {problem}"
                     for one in upstream for problem in one.problems})
    if result.row.p95_ms:
        below.append(f"    p95 {_median(ours, 'p95_ms'):.2f} ms, bound {result.row.p95_ms:g} ms")
    if result.row.per_second:
        below.append(f"    at least {result.row.per_second:g}/s")
    for extra in [one.extra for one in ours if "acknowledged" in one.extra][:1]:
        rivals = [one.extra["acknowledged"] for one in upstream]
        below.append(f"    acknowledged {[one.extra['acknowledged'] for one in ours]} for room "
                     f"for {extra['room']}; {result.row.peer} {rivals}")
    return "\n".join([" ".join(parts).rstrip(), *below])


def pairs(result: compare.Result) -> str:
    """Return the ratios pair by pair."""
    return "    pairs: " + " ".join(f"{ratio:.1f}" for ratio in result.ratios)


def growth_line(found: Growth) -> str:
    """Return one number of how cost grows."""
    detail = ", ".join(f"{name} {value:.2f}" for name, value in found.detail.items())
    bound = "" if found.bound is None else (
        f", at most {found.bound:g}: {'met' if found.met else 'NOT MET'}")
    return f"{found.name:24s} {found.value:8.2f}{bound}\n    {found.title}: {detail}"


def render_growth(found: Growth) -> dict[str, object]:
    """Return everything that was measured of how cost grows."""
    return {**dataclasses.asdict(found), "met": found.met}


def render_row(result: compare.Result) -> dict[str, object]:
    """Return everything that was measured of a row at one concurrency."""
    return {
        "name": result.row.name,
        "title": result.row.title,
        "world": result.dataset.name,
        "clients": result.clients,
        "peer": result.row.peer,
        "workers": result.row.workers,
        "floor": result.floor,
        "p95_bound_ms": result.row.p95_ms,
        "per_second_bound": result.row.per_second,
        "skipped": result.skipped,
        "ratio_median": result.ratio,
        "ratios": result.ratios,
        "answers_agree": result.differs is None if result.compared else None,
        "problems": result.problems,
        "met": result.met,
        "ours": [dataclasses.asdict(one) for one in result.ours],
        "upstream": [dataclasses.asdict(one) for one in result.upstream],
    }


def _median(found: Sequence[workloads.Measurement], name: str) -> float:
    return statistics.median(getattr(one, name) for one in found) if found else 0.0


def _spread(ratios: Sequence[float]) -> str:
    return f"[{min(ratios):.1f} .. {max(ratios):.1f}]" if ratios else "-"


def _p50(found: Sequence[workloads.Measurement]) -> str:
    return f"{_median(found, 'p50_ms'):.2f}"


def _cpu(found: Sequence[workloads.Measurement]) -> str:
    parts = [statistics.median(one.cpu_ms[part] for one in found) for part in found[0].cpu_ms]
    return "+".join(f"{part:.2f}" for part in parts)


def _both(
    result: compare.Result, show: Callable[[Sequence[workloads.Measurement]], str]
) -> str:
    return " | ".join(show(found) for found in (result.ours, result.upstream) if found)
