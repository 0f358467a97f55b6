"""GET /explain/…: why the answer is what it is."""

from __future__ import annotations

from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api.queries import candidates as query
from placement_core.placement.candidates import explain


def candidates(call: Call) -> Reply:
    """Return what each part of a request for allocation candidates left."""
    request = query.parse_bounded(
        call.query, call.microversion, call.services.conf.placement)
    snapshot = call.services.index.snapshot(call.ctx)
    most = call.services.conf.placement.max_allocation_candidates
    explanation = explain.explain_candidates(
        snapshot, request, max_candidates=most if most >= 0 else None,
        exclude_reserved=call.services.host_access is not None)
    return Reply(body=explanation, last_modified=NOW, cacheable=True)
