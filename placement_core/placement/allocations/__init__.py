"""Allocations: what consumers hold on providers, and every write of them.

``write`` and ``reshaper`` open the transactions; ``loaded`` reads the rows that a write
needs, ``plan`` computes what it changes, ``usage_delta`` how much more projects use by it,
``applying`` writes the plan, and ``refusals`` finds out why it does not fit.
``consumers``, ``moves``, ``reserved_trees`` and ``usage_counters`` each own the rows they
are named for. Source: design §4.
"""

from placement_core.placement.allocations.queries import list_for_consumer, list_for_provider
from placement_core.placement.allocations.write import Guard, delete, replace

__all__ = ["Guard", "delete", "list_for_consumer", "list_for_provider", "replace"]
