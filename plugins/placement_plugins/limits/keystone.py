"""The limit driver ``keystone``: reads limits from a remote Keystone."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from oslo_config import cfg

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName
from placement_plugins import keystone, keystone_cache

_GROUP = "limits"
_OPTIONS = keystone.freshness_options("limits")

#: The fields of a limit that are cached: region, resource name and value.
_Value = tuple[str | None, str, Amount]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the driver's options for oslo-config-generator."""
    return [(_GROUP, list(_OPTIONS))]


class KeystoneLimits(LimitDriver):
    """Reads limits from a remote Keystone, with a cache.

    Without cached answers, ``effective`` sends one request for the defaults of the service in
    the region, one for each node, and one that lists the domains, because the request for a
    node's limits has to say whether the node is a domain. Keystone has no limits of users.
    """

    api_version = 1

    def __init__(
        self, conf: cfg.ConfigOpts, *, clock: keystone_cache.Clock = time.monotonic
    ) -> None:
        conf.register_opts(_OPTIONS, group=_GROUP)
        self._keystone = keystone.Client(
            conf, needed_by="[limits] driver = keystone", freshness=_GROUP, clock=clock)

    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults of a service in a region, and what was set for nodes."""
        if not keystone.is_uuid(service_id) or not keystone.may_be_region(region_id):
            # Keystone answers 400 for these, so nothing can be registered for them.
            return EffectiveLimits({}, {})
        defaults = self._keystone.all(
            "registered_limits", _parse_default, service_id=service_id, region_id=region_id)
        domains = frozenset(self._keystone.all("domains", _parse_id))
        overrides = {}
        for node_id in filter(keystone.may_be_id, node_ids):
            kind = "domain_id" if node_id in domains else "project_id"
            overrides[node_id] = _select_region(region_id, self._keystone.all(
                "limits", _parse_override, service_id=service_id, region_id=region_id,
                **{kind: node_id}))
        return EffectiveLimits(_select_region(region_id, defaults), overrides)

    def effective_of_many(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the limits of many nodes with two requests."""
        if not keystone.is_uuid(service_id) or not keystone.may_be_region(region_id):
            return EffectiveLimits({}, {})
        of_service = {"service_id": service_id, "region_id": region_id}
        defaults = self._keystone.all("registered_limits", _parse_default, **of_service)
        overrides: dict[str, dict[str, Amount]] = {}
        for node_id, value in self._keystone.all("limits", _parse_node_override, **of_service):
            overrides.setdefault(node_id, {}).update(_select_region(region_id, [value]))
        return EffectiveLimits(_select_region(region_id, defaults), overrides)

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        """Return nothing: Keystone has limits of projects and domains only."""
        return {}

    def registered(self, ctx: Context) -> Collection[RegisteredName]:
        """Return all registered limits, with one request."""
        return self._keystone.all("registered_limits", _parse_name)


def _select_region(region_id: str | None, values: Iterable[_Value]) -> dict[str, Amount]:
    """Return the values of exactly this region.

    Keystone has no filter for limits without a region: it then returns those of all regions.
    Source: spec limits §2.
    """
    return {name: amount for region, name, amount in values if region == region_id}


def _parse_default(row: Mapping[str, Any]) -> _Value:
    return row["region_id"], row["resource_name"], amounts.from_wire(row["default_limit"])


def _parse_override(row: Mapping[str, Any]) -> _Value:
    return row["region_id"], row["resource_name"], amounts.from_wire(row["resource_limit"])


def _parse_node_override(row: Mapping[str, Any]) -> tuple[str, _Value]:
    return row["project_id"] or row["domain_id"], _parse_override(row)


def _parse_name(row: Mapping[str, Any]) -> RegisteredName:
    return RegisteredName(row["service_id"], row["region_id"], row["resource_name"])


def _parse_id(row: Mapping[str, Any]) -> str:
    id_: str = row["id"]
    return id_
