"""A limit that is exceeded, as answers and refusals show it."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core import amounts
from placement_core.quota.records import ExceededLimit


def render_exceeded_limit(exceeded_limit: ExceededLimit) -> dict[str, Any]:
    """Return its document; -1 is unlimited."""
    return {
        **dataclasses.asdict(exceeded_limit), "limit": amounts.to_wire(exceeded_limit.limit),
        "over_by": exceeded_limit.over_by}
