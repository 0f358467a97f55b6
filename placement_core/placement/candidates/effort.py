"""How much work a search does, counted without a clock.

Packing unequal amounts into unequal devices is NP-hard, so no search can be
quick for every request. What it spends on branches that come to nothing is
therefore bounded: each tree, and each combination found, gives an allowance
that any ordinary request stays within, and one purse for the whole request
pays for what goes beyond.
"""

from __future__ import annotations

#: So many nodes of the search may come to nothing beyond the allowances.
PURSE = 200_000
#: So many of the purse are taken at a time.
_COIN = 500


class TooLong(Exception):
    """The purse is empty: the tree at hand is left."""


class Effort:
    """What a request has cost so far.

    :ivar steps: rows looked at, the unit of work.
    :ivar purse: nodes that may still come to nothing beyond the allowances.
    :ivar left: trees whose search was broken off.
    """

    __slots__ = ("left", "purse", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.purse = PURSE
        self.left = 0

    def borrow(self) -> int:
        """Take some nodes out of the purse.

        :raises TooLong: there are none.
        """
        if self.purse <= 0:
            raise TooLong
        self.purse -= _COIN
        return _COIN
