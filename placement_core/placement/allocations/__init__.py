"""Allocations: what consumers hold on providers, and the one road for every write of them.

``write`` and ``reshaper`` are lists of the steps of a ``unit_of_work``: ``loaded`` reads
the rows that a write names, ``plan`` computes what it changes, ``applying`` writes that, and
``refusals`` finds out why it does not fit. ``gates`` are whoever may refuse; ``usage_delta``
tells them how much more is used, ``reserved_trees`` who claims of what is kept for others.
``consumers``, ``moves``, ``reserved_trees`` and ``usage_counters`` own the rows they are
named for; ``queries`` only read. Source: design §4.
"""

from placement_core.placement.allocations.gates import Check, Gate, PlannedWrite, WriteRequest
from placement_core.placement.allocations.queries import list_for_consumer, list_for_provider
from placement_core.placement.allocations.reshaper import reshape
from placement_core.placement.allocations.write import delete, replace

__all__ = ["Check", "Gate", "PlannedWrite", "WriteRequest", "delete", "list_for_consumer",
           "list_for_provider", "replace", "reshape"]
