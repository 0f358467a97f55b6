"""Who answers, and who is written second."""

from __future__ import annotations

import enum


class Side(enum.StrEnum):
    """One of the two services."""

    UPSTREAM = "upstream"
    OURS = "ours"

    @property
    def other(self) -> Side:
        """The other one."""
        return Side.OURS if self is Side.UPSTREAM else Side.UPSTREAM


class Mode(enum.StrEnum):
    """What the proxy does; it changes only by a command."""

    SHADOW = "shadow"
    SWITCHED = "switched"
    COMPLETE = "complete"
    CANCELLED = "cancelled"

    @property
    def answering(self) -> Side:
        """The side that answers."""
        return Side.UPSTREAM if self in (Mode.SHADOW, Mode.CANCELLED) else Side.OURS

    @property
    def follows(self) -> bool:
        """Whether the side that does not answer is written, too."""
        return self in (Mode.SHADOW, Mode.SWITCHED)

    @property
    def next_step(self) -> str:
        """What there is to do, in a sentence."""
        return _NEXT_STEPS[self]

    def describe(self, before: str = "") -> str:
        """Return what the mode means, and the next step, in one line.

        :param before: what there is to do before that.
        """
        return f"{self}: {_MEANINGS[self]}. Next: {before}{self.next_step}"


_MEANINGS = {
    Mode.SHADOW: "upstream answers, ours is written second",
    Mode.SWITCHED: "ours answers, upstream is written second",
    Mode.COMPLETE: "ours answers, upstream is not written any more",
    Mode.CANCELLED: "upstream answers, ours is not written any more",
}
_NEXT_STEPS = {
    Mode.SHADOW: "\"migrate switch --dry-run\", then \"migrate switch\"; or \"migrate cancel\".",
    Mode.SWITCHED: "\"migrate complete\"; or \"migrate reverse\", for as long as you want.",
    Mode.COMPLETE: "let clients reach ours without the proxy, and stop it.",
    Mode.CANCELLED: "let clients reach upstream without the proxy, and stop it; a new attempt "
                    "begins with a new --state.",
}

#: Which mode follows on which, by the command.
SWITCH = {Mode.SHADOW: Mode.SWITCHED}
REVERSE = {Mode.SWITCHED: Mode.SHADOW}
COMPLETE = {Mode.SWITCHED: Mode.COMPLETE}
CANCEL = {Mode.SHADOW: Mode.CANCELLED}
