"""The quota of a project: its limits, its usage, and what is free."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.counting import Count
from placement_core.quota import counts, errors
from placement_core.quota.queries import Measure, QuotaQueries
from placement_core.quota.records import LimitUsage, Source


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceQuota:
    """One resource of a project, or of a user in it.

    :ivar limit: the limit that was set for the project or user, or else the default.
    :ivar used: their own usage; None: the resource is not counted.
    :ivar free: how much more they could have under all limits that bind them, 0 or
        more; None: not known, because usage is not.
    :ivar tightest: the limit that leaves just ``free``; None: no limit binds them, or the
        resource is not counted.
    :ivar chain: the limits that bind them, the nearest first; none if the resource is not
        counted.
    """

    limit: Amount
    source: Source
    used: int | None
    free: Amount | None
    tightest: LimitUsage | None
    chain: Sequence[LimitUsage] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectQuota:
    """The resources of a project.

    :ivar resources: {resource name: its quota}, for every registered resource.
    :ivar of_user: the same for the requested user, whose limit is the project's where none
        was set; None: no user was requested.
    :ivar count: the count of usage; None: there is nothing to count.
    """

    project_id: str
    resources: Mapping[str, ResourceQuota]
    of_user: Mapping[str, ResourceQuota] | None
    count: Count | None


def get_project_quota(
    ctx: Context, queries: QuotaQueries, project_id: str, user_id: str | None = None
) -> ProjectQuota:
    """Return the limits, the usage and the free amounts of a project.

    Missing cells are listed in the count; they are no error.

    :param user_id: return this user's resources too.
    :raises errors.ProjectNotFound: the catalog has projects, but not this one, and it
        uses nothing.
    :raises errors.Unavailable: limits, catalog or usage are not known now.
    """
    try:
        subject = queries.subject(ctx, project_id, user_id)
    except errors.UnknownProject:
        raise errors.ProjectNotFound(project_id) from None
    registered = sorted(subject.project_limits.effective.defaults)
    measure = queries.measure(
        ctx, subject, list(filter(queries.is_countable, registered)), everything=True)
    resources = {name: _get_resource_quota(queries, measure, name) for name in registered}
    of_user = None
    if user_id is not None:
        of_user = {name: _get_user_quota(queries, measure, name, resources[name])
                   for name in registered}
    return ProjectQuota(project_id, resources, of_user, measure.count)


def _get_resource_quota(queries: QuotaQueries, measure: Measure, name: str) -> ResourceQuota:
    limits, project_id = measure.subject.project_limits.effective, measure.subject.project_id
    overrides = limits.overrides.get(project_id, {})
    source: Source = "set" if name in overrides else "default"
    limit = overrides.get(name, limits.defaults[name])
    if name not in measure.limit_usages:
        return ResourceQuota(limit, source, None, None, None)
    used = counts.sum_used(measure.count, [project_id], queries.decisions.resources.units(name))
    chain = [usage for usage in measure.limit_usages[name] if usage.scope != "user"]
    return ResourceQuota(limit, source, used, *_find_tightest(chain), chain)


def _get_user_quota(
    queries: QuotaQueries, measure: Measure, name: str, of_project: ResourceQuota
) -> ResourceQuota:
    of_user = measure.subject.of_user
    source: Source = "set" if name in of_user else of_project.source
    limit = of_user.get(name, of_project.limit)
    if name not in measure.limit_usages:
        return ResourceQuota(limit, source, None, None, None)
    assert measure.count is not None and measure.count.user is not None
    used = sum(measure.count.user.get(unit, 0)
               for unit in queries.decisions.resources.units(name))
    chain = measure.limit_usages[name]
    return ResourceQuota(limit, source, used, *_find_tightest(chain), chain)


def _find_tightest(usages: Sequence[LimitUsage]) -> tuple[Amount, LimitUsage | None]:
    tightest = min(usages, key=lambda usage: usage.free, default=None)
    if tightest is None or tightest.limit == amounts.UNLIMITED:
        return amounts.UNLIMITED, None
    return max(0, tightest.free), tightest
