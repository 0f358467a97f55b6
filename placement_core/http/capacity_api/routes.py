"""Every URL of the capacity API, below its prefix, on one screen."""

from __future__ import annotations

from placement_core.http.capacity_api import policies
from placement_core.http.capacity_api.views import explain
from placement_core.http.operations import Operation
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import schemas

OPERATIONS = (
    Operation("GET", "/explain/allocation_candidates", explain.candidates,
              policies.EXPLAIN_CANDIDATES, since=mv.CANDIDATES, query=schemas.CANDIDATES,
              json_only=True),
)
