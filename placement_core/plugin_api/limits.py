"""The interface of limit drivers: how much projects may use."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping

from oslo_config import cfg

from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.counting import Owner


@dataclasses.dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """The limits of one service in one region.

    :ivar defaults: the registered defaults by resource name; other names are not registered.
    :ivar overrides: {node id: {resource name: limit}}; nodes without limits of their own may be
        left out.
    """

    defaults: Mapping[str, Amount]
    overrides: Mapping[str, Mapping[str, Amount]]


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredName:
    """A resource on which a service has a registered limit; ``region_id`` None: in no region."""

    service_id: str
    region_id: str | None
    resource_name: str


class LimitDriver(abc.ABC):
    """Reads limits.

    Called from any thread. A driver that asks another service is called outside of
    transactions. It caches answers, also empty ones, and uses them during an outage for as long
    as its options allow.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar transactional: whether limits are in the service's own database, so that answers
        inside a transaction of ``ctx`` do not change until its end.
    """

    api_version = 1
    transactional = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver registers its own options here.

        :raises errors.ConfigurationError: an option of the driver is not valid.
        """

    @abc.abstractmethod
    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults of a service in a region, and the limits of some nodes.

        :param node_ids: ids of projects and domains.
        :param region_id: None: the limits without a region, not those of any region.
        :raises errors.Unavailable: the limits cannot be read, and cached ones are too old.
        """

    def effective_of_many(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the limits of thousands of nodes, perhaps with those of other nodes.

        Override it if reading all limits at once costs less than those of each node.
        """
        return self.effective(ctx, node_ids, service_id=service_id, region_id=region_id)

    @abc.abstractmethod
    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        """Return the limits of one user in a project, by resource name; most users have none."""

    def list_user_limits(
        self, ctx: Context, *, service_id: str, region_id: str | None
    ) -> Mapping[Owner, Mapping[str, Amount]]:
        """Return the limits of all users, {(project, user): {resource name: limit}}.

        A driver that cannot list them returns none: nobody is told then that they fill up.
        """
        return {}

    def registered(self, ctx: Context) -> Collection[RegisteredName] | None:
        """Return all registered limits, with which the service finds limits that bind nobody.

        :returns: None: the driver cannot list them.
        :raises errors.Unavailable: the limits cannot be read, and cached ones are too old.
        """
        return None
