"""Which limits count: ``[quota] service_type`` and ``region``, looked up in the catalog.

If a region is configured, only its limits count. If none is, the limits that are registered
without a region count, and also those of the catalog's region if it has exactly one; for a
resource that is registered both ways, the region's limit counts. With several regions the
intended one is unknown, so a service that registers a resource in regions only raises
``AmbiguousRegion`` instead of leaving the resource without a limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.counting import Owner
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver
from placement_core.quota import errors


@dataclasses.dataclass(frozen=True, slots=True)
class LimitSource:
    """The service and region whose limits count, from the options.

    :ivar service_type: a type of service in the catalog.
    :ivar region_id: None: no region is configured.
    """

    service_type: str
    region_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceKey:
    """The service and regions whose limits count.

    :ivar region_ids: a resource has the limits of the first of them in which it is
        registered; None among them: without a region.
    """

    service_id: str
    region_ids: tuple[str | None, ...]


def find(
    ctx: Context, catalog: CatalogDriver, limits: LimitDriver, service_type: str,
    region_id: str | None,
) -> ServiceKey | None:
    """Return the key of the only service of a type; None: the catalog has none.

    :param region_id: None: no region is configured.
    :raises errors.AmbiguousService: there are several services of that type.
    :raises errors.AmbiguousRegion: there are several regions, and none is configured.
    :raises errors.Unavailable: the catalog or the limits are not known now.
    """
    services = catalog.services(ctx, service_type=service_type)
    if len(services) > 1:
        raise errors.AmbiguousService(service_type, [service.id for service in services])
    if not services:
        return None
    service_id = services[0].id
    if region_id is not None:
        return ServiceKey(service_id, (region_id,))
    region_ids = [region.id for region in catalog.regions(ctx)]
    if len(region_ids) == 1:
        return ServiceKey(service_id, (region_ids[0], None))
    if len(region_ids) > 1:
        _require_no_region(ctx, limits, service_id, region_ids)
    return ServiceKey(service_id, (None,))


def describe(service_type: str, key: ServiceKey | None) -> str:
    """Describe whose limits count, in words that can follow "for"."""
    if key is None:
        return f"service type {service_type}, which the catalog does not have"
    places = ["without a region" if region_id is None else f"in region {region_id}"
              for region_id in key.region_ids]
    return f"service type {service_type} {' or '.join(places)}"


def effective(
    ctx: Context, limits: LimitDriver, key: ServiceKey, node_ids: Collection[str]
) -> EffectiveLimits:
    """Return the registered defaults that count, and the limits that were set for nodes.

    :raises errors.Unavailable: limits are not known now.
    """
    return _merge(*(
        limits.effective(ctx, node_ids, service_id=key.service_id, region_id=region_id)
        for region_id in key.region_ids))


def effective_of_many(
    ctx: Context, limits: LimitDriver, key: ServiceKey, node_ids: Collection[str]
) -> EffectiveLimits:
    """Return the same for thousands of nodes; the result may include limits of other nodes."""
    return _merge(*(
        limits.effective_of_many(
            ctx, node_ids, service_id=key.service_id, region_id=region_id)
        for region_id in key.region_ids))


def list_limited_resources(limits: EffectiveLimits) -> set[str]:
    """Return the resources that have a limit, also those with none but limits of nodes."""
    return limits.defaults.keys() | {
        name for set_for in limits.overrides.values() for name in set_for}


def user_limits(
    ctx: Context, limits: LimitDriver, key: ServiceKey, project_id: str, user_id: str
) -> Mapping[str, Amount]:
    """Return the limits that were set for a user in a project, by resource name.

    Most users have none.

    :raises errors.Unavailable: limits are not known now.
    """
    owner = project_id, user_id
    return _read_user_limits(ctx, limits, key, lambda region_id: {owner: limits.user_limits(
        ctx, project_id, user_id, service_id=key.service_id, region_id=region_id)})[owner]


def list_user_limits(
    ctx: Context, limits: LimitDriver, key: ServiceKey
) -> Mapping[Owner, Mapping[str, Amount]]:
    """Return the limits that were set for any users, {(project, user): {resource name: limit}}.

    :raises errors.Unavailable: limits are not known now.
    """
    return _read_user_limits(ctx, limits, key, lambda region_id: limits.list_user_limits(
        ctx, service_id=key.service_id, region_id=region_id))


def _read_user_limits(
    ctx: Context, limits: LimitDriver, key: ServiceKey,
    read: Callable[[str | None], Mapping[Owner, Mapping[str, Amount]]],
) -> dict[Owner, dict[str, Amount]]:
    """Read limits of users; a resource has those of the first region that registers it."""
    first, *others = key.region_ids
    set_for_users = {owner: dict(set_for) for owner, set_for in read(first).items()}
    for region_id in others:
        more = read(region_id)
        if any(more.values()):
            registered = limits.effective(
                ctx, (), service_id=key.service_id, region_id=first).defaults
            for owner, set_for in more.items():
                set_for_users.setdefault(owner, {}).update(
                    (name, set_for[name]) for name in set_for.keys() - registered.keys())
    return set_for_users


def _merge(first: EffectiveLimits, *others: EffectiveLimits) -> EffectiveLimits:
    """Merge limits; a resource has those of the first source that has any for it."""
    for other in others:
        names = list_limited_resources(other) - list_limited_resources(first)
        overrides = {node_id: dict(set_for) for node_id, set_for in first.overrides.items()}
        for node_id, set_for in other.overrides.items():
            overrides.setdefault(node_id, {}).update(
                (name, set_for[name]) for name in set_for.keys() & names)
        first = EffectiveLimits(
            {**first.defaults,
             **{name: other.defaults[name] for name in other.defaults.keys() & names}}, overrides)
    return first


def _require_no_region(
    ctx: Context, limits: LimitDriver, service_id: str, region_ids: Collection[str]
) -> None:
    """Check that a service registers no resource in regions only."""
    with_region: set[str] = set()
    without_region: set[str] = set()
    for limit in limits.registered(ctx) or ():
        if limit.service_id == service_id:
            names = without_region if limit.region_id is None else with_region
            names.add(limit.resource_name)
    if with_region - without_region:
        raise errors.AmbiguousRegion(region_ids, with_region - without_region)
