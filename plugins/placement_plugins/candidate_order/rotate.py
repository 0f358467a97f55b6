"""The order ``rotate``: what hosts have does not matter.

They stay in the order of the capacity index, which is the same for each request, or are in random
order with ``[placement] randomize_allocation_candidates``: only then all get their turn.
"""

from __future__ import annotations

from placement_core.plugin_api.candidate_order import CandidateOrder, CandidateTrees, Ranks


class Rotate(CandidateOrder):
    """Gives all trees the same rank."""

    api_version = 1

    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return None: all trees have the same rank."""
        return None
