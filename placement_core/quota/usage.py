"""What a project may have, has, and could still have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.counting import Count
from placement_core.quota import counts, errors
from placement_core.quota.queries import Measure, QuotaQueries
from placement_core.quota.records import Bound, Source


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """One resource of a project, or of a user in it.

    :ivar limit: what was set for whose share it is, or else the default.
    :ivar used: what they use themselves; None: nothing counts this resource.
    :ivar free: what they could still have, with all that binds them regarded, 0 or
        more; None: not known, because usage is not.
    :ivar tightest: the bound that leaves no more than that; None: nothing binds them,
        or nothing counts the resource.
    """

    limit: Amount
    source: Source
    used: int | None
    free: Amount | None
    tightest: Bound | None


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectQuota:
    """The resources of a project.

    :ivar shares: {resource name: share} of every registered resource.
    :ivar of_user: the same of the user who was asked about, whose limit is the
        project's where none was set; None: nobody was.
    :ivar count: how usage was counted; None: there is nothing to count.
    """

    project_id: str
    shares: Mapping[str, Share]
    of_user: Mapping[str, Share] | None
    count: Count | None


def of_project(
    ctx: Context, queries: QuotaQueries, project_id: str, user_id: str | None = None
) -> ProjectQuota:
    """Return what a project may have, has, and could still have.

    Missing cells are named in the count, and do not stop the answer.

    :param user_id: return this user's shares too.
    :raises errors.ProjectNotFound: the catalog has projects, but not this one, and it
        uses nothing.
    :raises errors.Unavailable: limits, catalog or usage are not known now.
    """
    try:
        subject = queries.subject(ctx, project_id, user_id)
    except errors.UnknownProject:
        raise errors.ProjectNotFound(project_id) from None
    registered = sorted(subject.bounds.limits.defaults)
    measure = queries.measure(
        ctx, subject, list(filter(queries.countable, registered)), everything=True)
    shares = {name: _share(queries, measure, name) for name in registered}
    of_user = None
    if user_id is not None:
        of_user = {name: _share_of_user(queries, measure, name, shares[name])
                   for name in registered}
    return ProjectQuota(project_id, shares, of_user, measure.count)


def _share(queries: QuotaQueries, measure: Measure, name: str) -> Share:
    limits, project_id = measure.subject.bounds.limits, measure.subject.project_id
    set_for = limits.overrides.get(project_id, {})
    source: Source = "set" if name in set_for else "default"
    limit = set_for.get(name, limits.defaults[name])
    if name not in measure.bounds:
        return Share(limit, source, None, None, None)
    used = counts.used(measure.count, [project_id], queries.decisions.resources.units(name))
    return Share(limit, source, used, *_free(
        [bound for bound in measure.bounds[name] if bound.scope != "user"]))


def _share_of_user(
    queries: QuotaQueries, measure: Measure, name: str, of_project: Share
) -> Share:
    of_user = measure.subject.of_user
    source: Source = "set" if name in of_user else of_project.source
    limit = of_user.get(name, of_project.limit)
    if name not in measure.bounds:
        return Share(limit, source, None, None, None)
    assert measure.count is not None and measure.count.user is not None
    used = sum(measure.count.user.get(unit, 0)
               for unit in queries.decisions.resources.units(name))
    return Share(limit, source, used, *_free(measure.bounds[name]))


def _free(bounds: Sequence[Bound]) -> tuple[Amount, Bound | None]:
    tightest = min(bounds, key=lambda bound: bound.free, default=None)
    if tightest is None or tightest.limit == amounts.UNLIMITED:
        return amounts.UNLIMITED, None
    return max(0, tightest.free), tightest
