"""All tables of the database; importing this module registers them on ``metadata``."""

from placement_core.catalog import tables as catalog_tables  # noqa: F401  (registers)
from placement_core.cells import tables as cell_tables  # noqa: F401  (registers)
from placement_core.changes import tables as change_tables  # noqa: F401  (registers)
from placement_core.compute import tables as compute_tables  # noqa: F401  (registers)
from placement_core.db import metadata
from placement_core.limits import tables as limit_tables  # noqa: F401  (registers)
from placement_core.placement import tables as placement_tables  # noqa: F401  (registers)
from placement_core.quota import tables as quota_tables  # noqa: F401  (registers)
from placement_core.reservations import tables as reservation_tables  # noqa: F401  (registers)
from placement_core.takeover import tables as takeover_tables  # noqa: F401  (registers)
from placement_core.thresholds import tables as threshold_tables  # noqa: F401  (registers)
from placement_core.workers import tables as worker_tables  # noqa: F401  (registers)

__all__ = ["metadata"]
