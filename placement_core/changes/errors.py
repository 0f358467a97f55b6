"""Refusals of readers of changes."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from placement_core import errors

if TYPE_CHECKING:
    from placement_core.changes.positions import Position


class InvalidPosition(errors.Invalid):
    """A text that is no position of this service."""

    code = "capacity.changes.invalid_token"

    def __init__(self) -> None:
        super().__init__(
            "That is no token of this service: expected the next of an answer, or now.")


class PositionLost(errors.Gone):
    """Changes since a position are not known any more, so a reader has to begin anew.

    :ivar oldest: the oldest position that can be read from; what was before it is lost.
    :ivar oldest_at: when the oldest change behind it was made; None: there is none.
    """

    def __init__(
        self, message: str, oldest: Position, oldest_at: datetime.datetime | None
    ) -> None:
        super().__init__(message)
        self.oldest = oldest
        self.oldest_at = oldest_at


class ChangesRemoved(PositionLost):
    """Changes behind the position were removed, because they were too old."""

    code = "capacity.changes.removed"

    def __init__(self, oldest: Position, oldest_at: datetime.datetime | None) -> None:
        super().__init__(
            "Changes since the token were removed, because they are older than [changes] "
            "keep_seconds: read everything anew, without a token.", oldest, oldest_at)


class DatabaseReplaced(PositionLost):
    """The database is not the one of the position: it was restored, or lost its last commits."""

    code = "capacity.changes.restored"

    def __init__(self, oldest: Position, oldest_at: datetime.datetime | None) -> None:
        super().__init__(
            "The database does not have what the token stands for: it was restored from a copy, "
            "or lost commits when it failed over. Read everything anew, without a token.",
            oldest, oldest_at)
