"""What is allowed: what a limit driver answers to whoever judges claims."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping

from oslo_config import cfg

from placement_core.amounts import Amount
from placement_core.context import Context


@dataclasses.dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """The limits of one service in one region.

    :ivar defaults: registered defaults by resource name. A name that is not in it
        is not registered.
    :ivar overrides: {node id: {resource name: what was set for it}}; nodes
        without any may be missing.
    """

    defaults: Mapping[str, Amount]
    overrides: Mapping[str, Mapping[str, Amount]]


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredName:
    """A resource that a service registers a limit on, in a region or (None) in no region."""

    service_id: str
    region_id: str | None
    resource_name: str


class LimitDriver(abc.ABC):
    """Answers what is allowed.

    Called from any thread of the server. A driver that asks another service is
    called outside of transactions, keeps what it learnt (also that there is
    nothing), and works through an outage for as long as its options say.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar transactional: inside a transaction of ``ctx`` the answer stands still
        until its end: it is read from the service's own database.
    """

    api_version = 1
    transactional = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Make the driver; one that has options reads them here."""

    @abc.abstractmethod
    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the defaults of a service in a region, and what was set for nodes.

        :param node_ids: ids of projects and domains.
        :param region_id: None is a value of its own, not "any".
        :raises errors.Unavailable: it is not known, and what was known is too old.
        """

    def effective_of_many(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        """Return the same for thousands of nodes; limits of others may be among them.

        For drivers that need not be asked about each node.
        """
        return self.effective(ctx, node_ids, service_id=service_id, region_id=region_id)

    @abc.abstractmethod
    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        """Return what was set for one user in a project, by resource name; mostly nothing."""

    def registered(self, ctx: Context) -> Collection[RegisteredName] | None:
        """Return what every service registers, so that limits nobody reads can be named.

        None: the driver cannot tell.

        :raises errors.Unavailable: it is not known, and what was known is too old.
        """
        return None
