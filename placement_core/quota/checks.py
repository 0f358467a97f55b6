"""Checks of quota: does a request fit into the limits? They claim nothing.

Others may use up the room between a check and what the caller creates; so a caller
that creates something without the guard checks again afterwards (``rechecks``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.counting import Count
from placement_core.quota import errors
from placement_core.quota.queries import Measure, QuotaQueries
from placement_core.quota.records import ExceededLimit, LimitUsage


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a request fits.

    :ivar exceeded_limits: the limits that it would exceed; none: it fits.
    :ivar measure: the limits and the usage that the result is based on.
    """

    exceeded_limits: Sequence[ExceededLimit]
    measure: Measure

    @property
    def fits(self) -> bool:
        """Say whether the request exceeds no limit."""
        return not self.exceeded_limits

    @property
    def count(self) -> Count | None:
        """Return the usage that was counted; None: no limit binds, so none was."""
        return self.measure.count


@dataclasses.dataclass(frozen=True, slots=True)
class CountCheckResult(CheckResult):
    """How many of several equal items fit.

    :ivar fitting: how many of the requested items fit; if fewer than ``min_count``,
        ``exceeded_limits`` has the limits that the minimum would exceed.
    :ivar held_by: the limits that one more would exceed; empty: all fit.
    """

    fitting: int
    held_by: Sequence[ExceededLimit]


def check(
    ctx: Context, queries: QuotaQueries, *, project_id: str, deltas: Mapping[str, int],
    user_id: str | None = None,
) -> CheckResult:
    """Check whether a project may have more of some resources.

    :param deltas: {resource name: amount from 0 on}; 0 asks whether a limit is
        exceeded already.
    :param user_id: the user whose limits bind, too.
    :raises errors.UnknownResource: a name maps to nothing that is counted.
    :raises errors.UncountedResource: the counting driver does not count it.
    :raises errors.UnknownProject: there is no such project.
    :raises errors.MissingCells: usage is not known (``[quota] on_missing_cell``).
    :raises errors.Unavailable: limits, catalog or usage are not known now.
    Source: nova ``check_deltas``; differs: the caller's project plays no part (N4).
    """
    measure = measure_request(ctx, queries, project_id, deltas, user_id)
    return CheckResult(queries.exceeded_limits(measure, deltas), measure)


def check_many(
    ctx: Context, queries: QuotaQueries, *, project_id: str, per_item: Mapping[str, int],
    min_count: int, max_count: int, user_id: str | None = None,
) -> CountCheckResult:
    """Check how many of several equal items a project may have.

    The result is computed from what is free, with one count (N1: the reference checks each
    number again, from the largest down).

    :param per_item: {resource name: amount from 0 on} of one item.
    :param min_count: the fewest items that are acceptable, 1 or more.
    :param max_count: how many are requested, ``min_count`` or more.
    :raises errors.InvalidCounts: ``min_count`` is more than ``max_count``.
    :raises errors.Error: as ``check``.
    """
    if min_count > max_count:
        raise errors.InvalidCounts(min_count, max_count)
    measure = measure_request(ctx, queries, project_id, per_item, user_id)
    fitting = int(min(max_count, count_fitting(measure, per_item)))
    needed = {name: amount * min_count for name, amount in per_item.items()}
    held_by = [
        usage.as_exceeded(per_item[name] * (fitting + 1))
        for name, usages in sorted(measure.limit_usages.items()) for usage in usages
        if fitting < max_count and usage.is_exceeded_by(per_item[name] * (fitting + 1))]
    return CountCheckResult(
        queries.exceeded_limits(measure, needed), measure, fitting, held_by)


def measure_request(
    ctx: Context, queries: QuotaQueries, project_id: str, names: Mapping[str, int],
    user_id: str | None,
) -> Measure:
    """Return the limits that bind a request, and the usage that counts against them.

    :raises errors.Error: as ``check``.
    """
    queries.require_countable(names)
    subject = queries.subject(ctx, project_id, user_id)
    measure = queries.measure(ctx, subject, names.keys())
    queries.require_cells(measure.missing_cells)
    return measure


def count_fitting(measure: Measure, per_item: Mapping[str, int]) -> Amount:
    """Return how many items fit into all limits; ``UNLIMITED`` where none binds."""
    return min(
        (_count_items(usage, per_item[name])
         for name, usages in measure.limit_usages.items() for usage in usages),
        default=amounts.UNLIMITED)


def _count_items(usage: LimitUsage, per_item: int) -> Amount:
    if usage.is_exceeded_by(0):
        return 0
    if per_item == 0 or usage.limit == amounts.UNLIMITED:
        return amounts.UNLIMITED
    return int(usage.free) // per_item
