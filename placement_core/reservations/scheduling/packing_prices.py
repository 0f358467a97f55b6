"""Prices: what a unit of each item is worth while items compete for hosts.

With divisible hosts, packing is a linear program. Its dual has a price for each item: at these
prices, hosts that are used in the most valuable way give each item what it needs, or nothing does.
They are approximated by multiplicative weights (Plotkin, Shmoys and Tardos, 1995): an item that
gets less than it needs becomes dearer. If at some prices all hosts together are worth less than
all items, the items fit in no arrangement, of whole hosts neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

#: How often prices are adjusted, and by how much first: the exponent of an item that gets nothing.
ROUNDS, _RATE = 60, 0.5

#: What floating point may be wrong by, relative to a sum.
_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """The prices of items, and how hosts are used at them.

    :ivar of_items: what a unit of each item is worth; all that is needed is worth 1.
    :ivar uses: what one host of each group gives each item, on average of all rounds.
    """

    of_items: np.ndarray
    uses: np.ndarray


def find_prices(
    patterns: Sequence[np.ndarray], counts: np.ndarray, goal: np.ndarray
) -> tuple[Prices | None, int]:
    """Find the prices of items.

    :param patterns: of each group of hosts, the ways to use one of them: units for each item.
    :param counts: how many hosts each group has.
    :param goal: how many units each item needs; some item needs any.
    :returns: None if the items do not fit, used as the patterns say; and the number of rounds.
    """
    table = np.concatenate(patterns)
    firsts = np.cumsum([0, *map(len, patterns[:-1])])
    needed = np.maximum(goal, 1)
    prices = (goal > 0) / needed
    uses = np.zeros((len(patterns), len(goal)))
    for number in range(ROUNDS):
        prices = prices / (prices * needed).sum()
        values = (table * prices).sum(axis=1)
        best = np.maximum.reduceat(values, firsts)
        if (prices * goal).sum() > (best * counts).sum() * (1 + _TOLERANCE):
            return None, number + 1
        chosen = np.flatnonzero(values >= np.repeat(best, list(map(len, patterns))))
        groups = np.searchsorted(firsts, chosen, side="right") - 1
        used = table[chosen[np.unique(groups, return_index=True)[1]]]
        uses += used
        short = (goal - (used * counts[:, None]).sum(axis=0)) / needed
        prices = prices * np.exp(_RATE / np.sqrt(number + 1) * np.clip(short, -1, 1))
    return Prices(prices / (prices * needed).sum(), uses / ROUNDS), ROUNDS
