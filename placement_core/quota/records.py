"""Records that the functions of this room return."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Literal

from placement_core import amounts
from placement_core.amounts import Amount

ClaimState = Literal["held", "confirmed", "expired"]
#: What counts against a limit: what the project uses itself, it and those below it
#: together, or one user in it.
Scope = Literal["own", "subtree", "user"]
#: Where a limit comes from: it was set, or is the registered default.
Source = Literal["set", "default"]


@dataclasses.dataclass(frozen=True, slots=True)
class LimitUsage:
    """A limit that binds a project, or a user in it, and its usage.

    :ivar node_id: the project or domain whose limit it is.
    :ivar used: the usage that counts against it.
    :ivar user_id: the user whose limit it is; None: not a user's limit.
    """

    node_id: str
    resource_name: str
    scope: Scope
    source: Source
    limit: Amount
    used: int
    user_id: str | None = None

    @property
    def free(self) -> Amount:
        """Return how much is left; below 0: the limit is exceeded already."""
        return self.limit - self.used

    def is_exceeded_by(self, delta: int) -> bool:
        """Say whether ``delta`` more would exceed it."""
        return amounts.is_over(self.limit, self.used, delta)

    def as_exceeded(self, asked: int) -> ExceededLimit:
        """Return the ``ExceededLimit`` of a request for so much more."""
        return ExceededLimit(
            self.node_id, self.resource_name, self.scope, self.source, self.limit, self.used,
            asked, self.user_id)


@dataclasses.dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that a request would exceed.

    :ivar node_id: the project or domain whose limit it is.
    :ivar user_id: the user whose limit it is; None: not a user's limit.
    :ivar used: the usage that counts against it now.
    :ivar asked: how much more was asked for.
    """

    node_id: str
    resource_name: str
    scope: Scope
    source: Source
    limit: Amount
    used: int
    asked: int
    user_id: str | None = None

    @property
    def over_by(self) -> int:
        """Return by how much the limit would be exceeded."""
        return self.used + self.asked - int(self.limit)

    def sentence(self) -> str:
        """Describe it in a sentence for users."""
        whose = f"project {self.node_id}" if self.scope == "own" else (
            f"user {self.user_id} in project {self.node_id}" if self.scope == "user"
            else f"{self.node_id} and what is below it")
        return (f"{self.resource_name}: {whose} may use {amounts.to_wire(self.limit)}, "
                f"{self.used} is used, {self.asked} more was asked for")


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """The allocations of a consumer, held until a deadline or permanently.

    :ivar consumer_uuid: also the name of the claim.
    :ivar state: ``held`` until ``expires_at``, ``confirmed``, or ``expired``.
    :ivar allocations: {provider uuid: {resource class: amount}}; empty once an
        expired claim was released.
    :ivar consumer_type: None for a consumer without one, or one that was deleted.
    :ivar expires_at: naive UTC, by the database's clock; None: never.
    """

    consumer_uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    state: ClaimState
    expires_at: datetime.datetime | None
    allocations: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(slots=True)
class Sweep:
    """The outcome of a sweep of expired claims; it is updated during the sweep.

    :ivar ended: the claims that it ended, with the allocations that were deleted.
    :ivar others: how many claims another process confirmed, released or ended meanwhile, or
        a write had taken over before.
    :ivar failed: the consumers whose claims could not be ended now.
    """

    ended: list[Claim] = dataclasses.field(default_factory=list)
    others: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
