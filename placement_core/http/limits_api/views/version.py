"""GET /v3: which version this is."""

from __future__ import annotations

from placement_core.http.limits_api import representations
from placement_core.http.operations import Call, Reply


def show(call: Call) -> Reply:
    """Return the document that clients discover the API with."""
    return Reply(body=representations.render_version(representations.get_root_url(call)))
