"""The orders ``pack`` and ``spread``: the fullest hosts first, or the emptiest."""

from __future__ import annotations

import numpy as np

from placement_core.plugin_api.candidate_order import (
    Amounts,
    CandidateOrder,
    CandidateTrees,
    Ranks,
)


class Pack(CandidateOrder):
    """Fills hosts one after the other: those with room for the fewest such requests come first."""

    api_version = 1

    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return how often each tree has room for the request."""
        return _count_copies(trees)


class Spread(CandidateOrder):
    """Fills all hosts evenly: those with room for the most such requests come first."""

    api_version = 1

    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return how often each tree has room for the request, as a negative number."""
        return -_count_copies(trees)


def _count_copies(trees: CandidateTrees) -> Amounts:
    """Return how often the free amounts of each tree contain the request.

    Classes that a tree has nothing free of are left out: if it is a candidate, a provider that
    shares its resources has them.
    """
    copies = np.full(len(trees), np.iinfo(np.int64).max)
    for resource_class, amount in trees.requested.items():
        free = trees.free(resource_class)
        copies = np.where(free > 0, np.minimum(copies, free // amount), copies)
    return copies
