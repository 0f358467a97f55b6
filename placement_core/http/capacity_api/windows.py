"""A window of time, as answers and refusals show it."""

from __future__ import annotations

from typing import Any

from placement_core.plugin_api.reservations import Window


def render_window(window: Window) -> dict[str, Any]:
    """Return its document."""
    return {"start_at": window.start_at, "end_at": window.end_at}
