"""Limits that are kept in the service's own database."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.limits import effective
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName


class LocalLimits(LimitDriver):
    """Answers from our tables, each question with one statement; inside the
    transaction of ``ctx`` if it has one.
    """

    api_version = 1
    transactional = True

    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults of a service in a region, and what was set for nodes."""
        return effective.read(ctx, node_ids, service_id=service_id, region_id=region_id)

    def effective_of_many(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults, and everything that was set."""
        return effective.read_all(ctx, service_id=service_id, region_id=region_id)

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        """Return what was set for one user in a project, by resource name."""
        return effective.read_user_limits(
            ctx, project_id, user_id, service_id=service_id, region_id=region_id)

    def registered(self, ctx: Context) -> Collection[RegisteredName]:
        """Return what every service registers."""
        return effective.registered_names(ctx)
