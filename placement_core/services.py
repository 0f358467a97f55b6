"""Picks the implementations: the one place that knows which class plays which part."""

from __future__ import annotations

import dataclasses

from placement_core.db.database import Database
from placement_core.placement.index import CapacityIndex


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What the edges (HTTP, commands) are handed."""

    database: Database
    index: CapacityIndex
