"""How much work a search does, counted without a clock.

Packing unequal amounts into unequal devices is NP-hard, so no search can be
quick for every request. Dead ends are therefore bounded: each tree, and each
combination found, grants an allowance that any ordinary request stays within,
and one budget for the whole request is charged for what goes beyond.
"""

from __future__ import annotations

#: How many nodes one draw takes.
_NODES_PER_DRAW = 500


class BudgetExhausted(Exception):
    """The budget of the request is spent: the search of the current tree stops."""


class SearchBudget:
    """What the search for a request has cost, and may still cost.

    :ivar steps: rows looked at.
    :ivar nodes_left: how many nodes may still be dead ends beyond the allowances; one that is
        dear counts as several.
    :ivar abandoned_trees: trees whose search was broken off.
    """

    __slots__ = ("abandoned_trees", "nodes_left", "steps")

    def __init__(self, nodes: int) -> None:
        """Initialize the budget.

        :param nodes: how many may be dead ends beyond the allowances.
        """
        self.steps = 0
        self.nodes_left = nodes
        self.abandoned_trees = 0

    def draw(self) -> int:
        """Take some nodes out of the budget of the request.

        :raises BudgetExhausted: there are none.
        """
        if self.nodes_left <= 0:
            raise BudgetExhausted
        self.nodes_left -= _NODES_PER_DRAW
        return _NODES_PER_DRAW
