"""Allocations of consumers on providers, and the single code path that writes them.

``write`` and ``reshaper`` list the steps of a ``unit_of_work``: ``loaded`` reads the rows that a
write names, ``plan`` computes the changes, ``applying`` writes them, and ``refusals`` finds the
reason if they do not fit. ``gates`` may refuse a write; ``usage_delta`` computes for them how much
the usage grows, and ``reserved_trees`` which reserved trees are claimed. ``consumers``, ``moves``,
``reserved_trees`` and ``usage_counters`` own the rows that they are named after; ``queries`` only
reads. ``write_queue`` collects writes that wait at the same time, and ``grouped_writes`` applies
them in one transaction. Source: design §4.
"""

from placement_core.placement.allocations.gates import Check, Gate, PlannedWrite, WriteRequest
from placement_core.placement.allocations.queries import list_for_consumer, list_for_provider
from placement_core.placement.allocations.reshaper import reshape
from placement_core.placement.allocations.write import delete, replace
from placement_core.placement.allocations.write_queue import WriteQueue

__all__ = ["Check", "Gate", "PlannedWrite", "WriteQueue", "WriteRequest", "delete",
           "list_for_consumer", "list_for_provider", "replace", "reshape"]
