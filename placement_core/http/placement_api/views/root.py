"""GET /: which microversions are offered."""

from __future__ import annotations

from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api import representations


def show(call: Call) -> Reply:
    """Return the document that clients discover versions with."""
    return Reply(body=representations.render_offered_versions(), last_modified=NOW, cacheable=True)
