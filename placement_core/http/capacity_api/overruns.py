"""A limit that is exceeded, as answers and refusals show it."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core import amounts
from placement_core.quota.records import Overrun


def render_overrun(overrun: Overrun) -> dict[str, Any]:
    """Return what a client sees of it; -1 is unlimited."""
    return {
        **dataclasses.asdict(overrun), "limit": amounts.to_wire(overrun.limit),
        "over_by": overrun.over_by}
