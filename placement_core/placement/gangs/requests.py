"""What a caller asks of a gang, as plain values."""

from __future__ import annotations

import dataclasses

from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.gangs import errors
from placement_core.placement.gangs.levels import Level


@dataclasses.dataclass(frozen=True, slots=True)
class GangRequest:
    """Several equal members, and how they are to lie.

    :ivar shape: what each member needs.
    :ivar members: how many there are to be.
    :ivar min_members: how many are enough if there is no room for all.
    :ivar within: all members lie in one domain of this level.
    :ivar pack_by: they use as few domains of this level as possible.
    :ivar spread_by: they are divided as evenly as possible among the domains of this level.
    :ivar max_per_host: the largest number of members on one host; None: no bound.
    :ivar order_by: members next to each other in the answer lie in one domain of this level, as
        far as possible. It has no effect on where they go.
    """

    shape: CandidatesRequest
    members: int
    min_members: int
    within: Level | None = None
    pack_by: Level | None = None
    spread_by: Level | None = None
    max_per_host: int | None = None
    order_by: Level | None = None

    def __post_init__(self) -> None:
        """Check that the parameters agree.

        :raises errors.InvalidGang: they do not.
        """
        if self.min_members > self.members:
            raise errors.InvalidGang(
                f"min_members ({self.min_members}) is more than members ({self.members}).")
        if self.pack_by is not None and self.spread_by is not None:
            raise errors.InvalidGang("pack_by and spread_by exclude each other.")

    @property
    def divided_by(self) -> Level | None:
        """Return the level of ``pack_by`` or ``spread_by``."""
        return self.pack_by or self.spread_by

    @property
    def levels(self) -> list[Level]:
        """Return the levels of which every member has to be in a domain."""
        return [level for level in (self.within, self.divided_by) if level is not None]
