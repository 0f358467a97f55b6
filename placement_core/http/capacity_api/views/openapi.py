"""GET /capacity/v1/openapi.json: what the service speaks, for generators of clients."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.conditional import ETag
from placement_core.http.openapi import Description
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import microversions as mv


def tag(call: Call) -> ETag:
    """Return the tag of the document: that of its contents."""
    return ETag(("openapi", call.prefix, _describe(call).digest))


def show(call: Call) -> Reply:
    """Return the OpenAPI document of all APIs at one microversion."""
    return Reply(body={
        **_describe(call).document, "servers": [{"url": call.prefix or "/"}]})


def _describe(call: Call) -> Description:
    """Describe the microversion that the query names, or else that of the request."""
    assert call.openapi is not None
    number = pages.get_last(call.query, "microversion")
    return call.openapi.describe(
        call.microversion if number is None else mv.BY_NUMBER[number])
