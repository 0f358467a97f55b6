"""What is wrong with a request for a gang, and why it does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placement_core import errors


class InvalidLevel(errors.Invalid):
    """A text that names no level of topology."""

    code = "gang.level.invalid"

    def __init__(self, text: str) -> None:
        super().__init__(
            f"There is no level {text!r}: expected host, aggregate:trait=TRAIT, "
            "aggregate:name=PREFIX or tree:DEPTH (from 1 on).")
        self.text = text


class UnknownLevelTrait(errors.Invalid):
    """The trait that is to mark the aggregates of a level does not exist."""

    code = "gang.level.unknown_trait"

    def __init__(self, trait: str) -> None:
        super().__init__(f"There is no trait {trait}, which is to mark aggregates.")
        self.trait = trait


class InvalidGang(errors.Invalid):
    """The parameters of a gang contradict each other."""

    code = "gang.invalid"


@dataclasses.dataclass(frozen=True, slots=True)
class LargestDomain:
    """The domain of a level that can take the most members.

    :ivar level: as the request has it.
    :ivar name: the domain's; None: the level has no domain with room.
    :ivar holds: how many members fit there.
    """

    level: str
    name: str | None
    holds: int


class NoRoomForGang(errors.Conflict):
    """No choice of hosts has room for as many members as are needed.

    :ivar members: how many were asked for, and ``needed`` how many would do.
    :ivar holds: how many fit, wherever they are.
    :ivar largest: of each level that the request names, and of hosts.
    """

    code = "gang.no_room"

    def __init__(
        self, members: int, needed: int, holds: int, largest: Sequence[LargestDomain],
        reason: str | None = None,
    ) -> None:
        least = "" if needed == members else f" (at least {needed})"
        wanted = f"{members} members{least} do not fit"
        super().__init__(f"{wanted}: {reason}." if reason else f"{wanted}: " + "; ".join([
            *(_describe_largest(each, members) for each in largest),
            f"there is room for {holds} in total"]) + ".")
        self.members = members
        self.needed = needed
        self.holds = holds
        self.largest = largest


def _describe_largest(largest: LargestDomain, members: int) -> str:
    if largest.name is None:
        return f"no {largest.level} has room for one"
    return f"the largest {largest.level} ({largest.name}) holds {largest.holds} of {members}"
