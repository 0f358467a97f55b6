"""How full quotas are: the numbers that a manager sets for monitoring."""

from __future__ import annotations

import logging

from placement_core import metrics
from placement_core.context import Context
from placement_core.quota.overview import NO_LIMIT, Overview, Overviews

LOG = logging.getLogger(__name__)

#: Projects are counted that use more than these percentages of what they may use.
PERCENTAGES = (80, 95, 100)


def export(ctx: Context, *, overviews: Overviews) -> None:
    """Set the metrics of quota; to be called periodically.

    Where cells do not answer they stay as they are: without these, usage would be too low.
    """
    overview = overviews.make(ctx)
    if overview.count is not None and overview.count.missing_cells:
        LOG.warning("the metrics of quota stay as they are: %d cells do not answer",
                    len(overview.count.missing_cells))
        return
    metrics.set_quota(measure(overview))


def measure(overview: Overview) -> dict[str, metrics.QuotaFill]:
    """Return how full the quota of each resource is.

    A project's share is what it uses, in relation to that and what it might use yet; where the
    tightest limit is its own, that is usage by limit. 1.0: it can use no more. Resources that
    nobody counts, and those that no limit binds, are left out.
    """
    fills = {}
    for name, column in overview.resources.items():
        if column.used is None or column.free is None:
            continue
        shares = [
            _compute_share(used, free)
            for used, free in zip(column.used, column.free, strict=True) if free != NO_LIMIT]
        if shares:
            fills[name] = metrics.QuotaFill(max(shares), {
                percentage: sum(100 * share >= percentage for share in shares)
                for percentage in PERCENTAGES})
    return fills


def _compute_share(used: int, free: int) -> float:
    """Return which share of what a project uses and might use yet it uses."""
    return used / (used + free) if used else 0.0
