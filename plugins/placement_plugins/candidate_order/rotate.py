"""The order ``rotate``: hosts take turns."""

from __future__ import annotations

from placement_core.plugin_api.candidate_order import CandidateOrder, CandidateTrees, Ranks


class Rotate(CandidateOrder):
    """Gives all trees the same rank."""

    api_version = 1

    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return None: all trees have the same rank."""
        return None
