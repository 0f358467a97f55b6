"""GET /capacity/v1: which version of the API this is."""

from __future__ import annotations

from placement_core.http.operations import Call, Reply


def show(call: Call) -> Reply:
    """Return the document that clients discover the API with."""
    return Reply(body={"version": {
        "id": "v1.0", "status": "CURRENT",
        "links": [{"rel": "self", "href": f"{call.prefix}/capacity/v1"}]}})
