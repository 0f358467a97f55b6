"""How full quotas are: the numbers that a manager sets for monitoring."""

from __future__ import annotations

from placement_core import metrics
from placement_core.context import Context
from placement_core.quota.overview import NO_LIMIT, Overview, Overviews

#: Projects are counted that use more than these percentages of what they may use.
PERCENTAGES = (80, 95, 100)


def export(ctx: Context, *, overviews: Overviews) -> None:
    """Set the metrics of quota; to be called periodically."""
    metrics.set_quota(measure(overviews.make(ctx)))


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
