"""A picture of a run: how many times faster, beside what was asked for."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

_GOOD, _BAD, _FREE = "#2a7f5f", "#b5432f", "#7a8791"


def draw(rows: Sequence[Mapping[str, Any]], title: str, path: pathlib.Path) -> bool:
    """Write an SVG; say whether there was anything to draw.

    :param rows: as in the JSON of a run.

    Needs matplotlib (the extra ``bench``); without it nothing is drawn.
    """
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        return False
    shown = [row for row in rows if row["ratios"]]
    if not shown:
        return False
    # The same run gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = "placement-core"
    figure, axes = pyplot.subplots(figsize=(10, 0.9 + 0.32 * len(shown)))
    for place, row in enumerate(shown):
        ratio, ratios, floor = row["ratio_median"], row["ratios"], row["floor"]
        colour = {True: _GOOD, False: _BAD, None: _FREE}[row["met"]]
        axes.barh(place, ratio, color=colour, height=0.62)
        axes.plot([min(ratios), max(ratios)], [place, place], color="black", lw=1)
        axes.annotate(f" {ratio:.3g} x", (max(*ratios, floor or 0), place),
                      va="center", fontsize=8)
        if floor:
            axes.plot([floor] * 2, [place - 0.4, place + 0.4], color="black", lw=2)
    axes.set_yticks(range(len(shown)),
                    [f"{row['title']}; {row['clients']} client{'s'[:row['clients'] > 1]}"
                     for row in shown], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(left=0.5, right=max(max(row["ratios"]) for row in shown) * 3)
    axes.set_xlabel("requests per second, ours / theirs (median; line: all pairs; "
                    "bar: what was asked for)", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
