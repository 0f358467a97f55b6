"""A picture of a run: how many times faster, beside what was asked for."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from benchmarks import compare

_GOOD, _BAD, _FREE = "#2a7f5f", "#b5432f", "#7a8791"


def draw(results: Sequence[compare.Result], title: str, path: pathlib.Path) -> bool:
    """Write an SVG; say whether there was anything to draw.

    Needs matplotlib (the extra ``bench``); without it nothing is drawn.
    """
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        return False
    shown = [result for result in results if result.ratios]
    if not shown:
        return False
    # The same run gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = "placement-core"
    figure, axes = pyplot.subplots(figsize=(10, 0.9 + 0.32 * len(shown)))
    for place, result in enumerate(shown):
        ratio = result.ratio or 0.0
        colour = {True: _GOOD, False: _BAD, None: _FREE}[result.met]
        axes.barh(place, ratio, color=colour, height=0.62)
        axes.plot([min(result.ratios), max(result.ratios)], [place, place], color="black", lw=1)
        axes.annotate(f" {ratio:.3g} x", (max(*result.ratios, result.row.floor or 0), place),
                      va="center", fontsize=8)
        if result.row.floor:
            axes.plot([result.row.floor] * 2, [place - 0.4, place + 0.4], color="black", lw=2)
    axes.set_yticks(range(len(shown)),
                    [f"{result.row.title}; {result.clients} client"
                     f"{'s'[:result.clients > 1]}" for result in shown], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(left=0.5, right=max(max(result.ratios) for result in shown) * 3)
    axes.set_xlabel("requests per second, ours / upstream (median; line: all pairs; "
                    "bar: what was asked for)", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
