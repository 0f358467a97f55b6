"""GET /v1 and /v1/versions: the versions of the API."""

from __future__ import annotations

from placement_core.http.leases_api import representations
from placement_core.http.operations import Call, Reply


def show(call: Call) -> Reply:
    """Return the document that clients discover the API with."""
    return Reply(300, representations.render_versions(f"{call.prefix}/v1"))
