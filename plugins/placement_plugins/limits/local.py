"""The limit driver ``local``: reads limits from the service's own database."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.limits import effective
from placement_core.plugin_api.counting import Owner
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName


class LocalLimits(LimitDriver):
    """Reads limits with one statement for each call, in the transaction of ``ctx`` if any."""

    api_version = 1
    transactional = True

    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults of a service in a region, and the limits of some nodes."""
        return effective.read(ctx, node_ids, service_id=service_id, region_id=region_id)

    def effective_of_many(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults, and the limits of all nodes."""
        return effective.read_all(ctx, service_id=service_id, region_id=region_id)

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        """Return the limits of one user in a project, by resource name."""
        return effective.read_user_limits(
            ctx, project_id, user_id, service_id=service_id, region_id=region_id)

    def list_user_limits(
        self, ctx: Context, *, service_id: str, region_id: str | None
    ) -> Mapping[Owner, Mapping[str, Amount]]:
        """Return the limits of all users, by project and user."""
        return effective.list_user_limits(ctx, service_id=service_id, region_id=region_id)

    def registered(self, ctx: Context) -> Collection[RegisteredName]:
        """Return all registered limits."""
        return effective.registered_names(ctx)
