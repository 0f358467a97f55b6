"""Sums and merges of counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placement_core.plugin_api.counting import Count


def sum_used(count: Count | None, project_ids: Iterable[str], units: Collection[str]) -> int:
    """Return the total usage of some units by some projects.

    :param count: None: nothing was counted.
    """
    if count is None:
        return 0
    return sum(
        amounts.get(unit, 0)
        for project_id in project_ids
        if (amounts := count.projects.get(project_id)) is not None
        for unit in units)


def merge(first: Count, second: Count) -> Count:
    """Merge the counts of different projects; the user's usage is that of the first."""
    missing = {cell.uuid: cell for cell in (*first.missing_cells, *second.missing_cells)}
    seconds = dict(first.seconds)
    for name, duration in second.seconds.items():
        seconds[name] = seconds.get(name, 0.0) + duration
    return Count(
        {**first.projects, **second.projects},
        "+".join(sorted({first.source, second.source})),
        first.user, list(missing.values()), seconds)
