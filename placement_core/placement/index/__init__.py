"""The capacity index: what the database says about providers, as arrays.

``rows`` are plain records as a loader reads them, ``columns`` and ``layout``
the arrays made of them, ``snapshot`` one immutable version of everything,
``loader`` reads the database, ``capacity_index`` keeps a process's version
fresh. Source: design §3.
"""

from placement_core.placement.index.capacity_index import CapacityIndex
from placement_core.placement.index.snapshot import CapacitySnapshot

__all__ = ["CapacityIndex", "CapacitySnapshot"]
