"""Registered limits without effect, because this service does not read or count them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator

import os_resource_classes

from placement_core.context import Context
from placement_core.placement import resource_classes
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES
from placement_core.plugin_api.limits import RegisteredName
from placement_core.quota import limit_sources, members
from placement_core.quota.errors import AmbiguousRegion, AmbiguousService
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.queries import QuotaQueries

LOG = logging.getLogger(__name__)


def find_gaps(
    ctx: Context, queries: QuotaQueries, *, judged_elsewhere: Collection[str] = ()
) -> list[str]:
    """Return a sentence for each reason why registered limits are not enforced.

    :param judged_elsewhere: names of limits that are enforced without being counted here.
    :raises errors.Unavailable: limits or the catalog are not known now.
    """
    source = queries.source
    registered = list(queries.limits.registered(ctx) or ())
    region_id = source.region_id
    if region_id is not None and queries.catalog.region(ctx, region_id) is None:
        return [f"[quota] region = {region_id}: the catalog has no such region, so no limit "
                "binds anybody."]
    try:
        key = limit_sources.find(
            ctx, queries.catalog, queries.limits, source.service_type, region_id)
    except (AmbiguousService, AmbiguousRegion) as error:
        return [str(error)]
    if key is None:
        return _list_without_service(ctx, queries, registered)
    names = limit_sources.effective(ctx, queries.limits, key, ()).defaults.keys()
    return [
        *_list_unread(queries, key, registered),
        *_list_uncounted(ctx, queries, sorted(names - set(judged_elsewhere)))]


class GapLog:
    """Logs each gap once, and again when it comes back. Not thread-safe."""

    def __init__(self, find: Callable[[Context], Iterable[str]]) -> None:
        """Initialize the log.

        :param find: returns the current gaps.
        """
        self._find = find
        self._logged: frozenset[str] = frozenset()

    def update(self, ctx: Context) -> None:
        """Log the gaps that the previous call did not find."""
        gaps = frozenset(self._find(ctx))
        for gap in sorted(gaps - self._logged):
            LOG.warning("%s", gap)
        self._logged = gaps


def _list_without_service(
    ctx: Context, queries: QuotaQueries, registered: Iterable[RegisteredName]
) -> list[str]:
    if not registered:
        return []
    types = {service.id: service.type for service in queries.catalog.services(ctx)}
    service_types = sorted({types.get(limit.service_id, limit.service_id) for limit in registered})
    return [f"[quota] service_type = {queries.source.service_type}: the catalog has no such "
            "service, so no limit binds anybody; limits are registered for "
            f"{', '.join(service_types)}."]


def _list_unread(
    queries: QuotaQueries, key: ServiceKey, registered: Iterable[RegisteredName]
) -> Iterator[str]:
    """Describe limits of the service that are registered in a region that is not read.

    If a region is configured, other regions may register the same resources.
    """
    of_service = [limit for limit in registered if limit.service_id == key.service_id]
    read: dict[str, str | None] = {}
    for region_id in key.region_ids:
        for limit in of_service:
            if limit.region_id == region_id:
                read.setdefault(limit.resource_name, region_id)
    configured = queries.source.region_id
    unread: dict[str | None, list[str]] = {}
    for limit in of_service:
        name = limit.resource_name
        if name not in read or (configured is None and read[name] != limit.region_id):
            unread.setdefault(limit.region_id, []).append(name)
    for region_id, names in sorted(unread.items(), key=lambda item: item[0] or ""):
        where = "without a region" if region_id is None else f"in region {region_id}"
        yield (
            f"Limits of service {queries.source.service_type} ({key.service_id}) that are "
            f"registered {where} bind nobody: {', '.join(sorted(names))}. "
            f"{_explain_reading(key, configured)}")


def _explain_reading(key: ServiceKey, configured: str | None) -> str:
    if configured is not None:
        return f"[quota] region = {configured}: the limits of that region alone count."
    if len(key.region_ids) > 1:
        return ("[quota] region is empty: of what is registered with and without a region, "
                f"the limits of {key.region_ids[0]} count, the only region of the catalog.")
    return "[quota] region is empty: limits without a region count."


def _list_uncounted(
    ctx: Context, queries: QuotaQueries, names: Collection[str]
) -> Iterator[str]:
    """Describe limits that are read, but whose usage is not counted."""
    resources = queries.decisions.resources
    # Members of server groups are no unit: the counting driver has a method for them.
    of_units = [name for name in names if name != members.RESOURCE_NAME]
    unknown = [name for name in of_units if not resources.knows(name)]
    if unknown:
        yield (f"Limits are registered that nothing is held to: {', '.join(unknown)}. Say in "
               "[quota] resource_map what they count.")
    counted = [name for name in of_units if resources.knows(name)]
    classes = _ResourceClasses(ctx, queries)
    for name in counted:
        missing = sorted(unit for unit in resources.units(name) if not classes.has(unit))
        if missing:
            yield (f"Limits on {name} count {' and '.join(missing)}, and there is no such "
                   "resource class.")
    uncountable = [name for name in counted if not queries.is_countable(name)]
    if members.RESOURCE_NAME in names and not queries.counting.counts_members:
        uncountable.append(members.RESOURCE_NAME)
    if uncountable:
        yield (f"Limits are registered that nothing is held to: {', '.join(uncountable)}. The "
               "counting driver does not count them: see [quota] count_usage_from_placement.")


@dataclasses.dataclass(slots=True)
class _ResourceClasses:
    """The resource classes that exist; custom ones are those in our own database."""

    ctx: Context
    queries: QuotaQueries
    custom: frozenset[str] | None = None

    def has(self, unit: str) -> bool:
        """Say whether a unit can be counted."""
        if unit in (CONSUMERS, INSTANCES) or unit in os_resource_classes.STANDARDS:
            return True
        if not resource_classes.is_custom_name(unit):
            return False
        if not self.queries.counting.transactional:
            return True  # the classes of a remote placement are unknown here
        if self.custom is None:
            self.custom = frozenset(
                resource_class.name for resource_class in resource_classes.list_(self.ctx))
        return unit in self.custom
