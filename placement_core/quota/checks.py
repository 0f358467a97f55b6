"""Does it fit? Asked before something is made, decided without taking anything.

Between the answer and what is made of it others may take the room: so whoever makes
something without the guard asks again afterwards (``rechecks``).
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
from placement_core.quota.records import Bound, Overrun


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Whether a request fits.

    :ivar overruns: the limits that it does not fit into; none: it fits.
    :ivar measure: what was found out to say so.
    """

    overruns: Sequence[Overrun]
    measure: Measure

    @property
    def fits(self) -> bool:
        """Say whether nothing stands in the way."""
        return not self.overruns

    @property
    def count(self) -> Count | None:
        """Return how usage was counted; None: no limit made it necessary."""
        return self.measure.count


@dataclasses.dataclass(frozen=True, slots=True)
class CountAnswer(Answer):
    """How many of several equal items fit.

    :ivar fitting: how many, of those that were asked for; it may be fewer than the
        fewest that will do, and then ``overruns`` says what stops those.
    :ivar held_by: the limits that one more would exceed; none: all fit.
    """

    fitting: int
    held_by: Sequence[Overrun]


def check(
    ctx: Context, queries: QuotaQueries, *, project_id: str, deltas: Mapping[str, int],
    user_id: str | None = None,
) -> Answer:
    """Say whether a project may have so much more.

    :param deltas: {resource name: amount from 0 on}; 0 asks whether a limit is
        exceeded already.
    :param user_id: who asks: limits of the user bind too.
    :raises errors.UnknownResource: nothing is counted by a name.
    :raises errors.Uncounted: the counting driver does not count it.
    :raises errors.UnknownProject: there is no such project.
    :raises errors.MissingCells: usage is not known (``[quota] on_missing_cell``).
    :raises errors.Unavailable: limits, catalog or usage are not known now.
    Source: nova ``check_deltas``; differs: the caller's project plays no part (N4).
    """
    measure = measured(ctx, queries, project_id, deltas, user_id)
    return Answer(queries.overruns(measure, deltas), measure)


def check_many(
    ctx: Context, queries: QuotaQueries, *, project_id: str, per_item: Mapping[str, int],
    min_count: int, max_count: int, user_id: str | None = None,
) -> CountAnswer:
    """Say how many of several equal items a project may have.

    Worked out of what is free, with one count (N1: the reference asks again for each
    number from the largest down).

    :param per_item: {resource name: amount from 0 on} of one item.
    :param min_count: how many there have to be, 1 or more.
    :param max_count: how many are wanted, ``min_count`` or more.
    :raises errors.InvalidCounts: ``min_count`` is more than ``max_count``.
    :raises errors.Error: as ``check``.
    """
    if min_count > max_count:
        raise errors.InvalidCounts(min_count, max_count)
    measure = measured(ctx, queries, project_id, per_item, user_id)
    fitting = int(min(max_count, largest(measure, per_item)))
    needed = {name: amount * min_count for name, amount in per_item.items()}
    held_by = [
        bound.overrun(per_item[name] * (fitting + 1))
        for name, bounds in sorted(measure.bounds.items()) for bound in bounds
        if fitting < max_count and bound.breaks(per_item[name] * (fitting + 1))]
    return CountAnswer(
        queries.overruns(measure, needed), measure, fitting, held_by)


def measured(
    ctx: Context, queries: QuotaQueries, project_id: str, names: Mapping[str, int],
    user_id: str | None,
) -> Measure:
    """Count what binds a request.

    :raises errors.Error: as ``check``.
    """
    queries.require_countable(names)
    subject = queries.subject(ctx, project_id, user_id)
    measure = queries.measure(ctx, subject, names.keys())
    queries.require_cells(measure.missing_cells)
    return measure


def largest(measure: Measure, per_item: Mapping[str, int]) -> Amount:
    """Return how many items fit into all bounds; ``UNLIMITED`` where none binds."""
    return min(
        (_items(bound, per_item[name])
         for name, bounds in measure.bounds.items() for bound in bounds),
        default=amounts.UNLIMITED)


def _items(bound: Bound, per_item: int) -> Amount:
    if bound.breaks(0):
        return 0
    if per_item == 0 or bound.limit == amounts.UNLIMITED:
        return amounts.UNLIMITED
    return int(bound.free) // per_item
