"""GET /allocation_candidates."""

from __future__ import annotations

from collections.abc import Sequence

from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import candidates as query
from placement_core.placement.candidates import answers, search
from placement_core.placement.candidates.filters import RequestPart


def list_(call: Call) -> Reply:
    """Return where the requested amounts fit."""
    version = call.microversion
    options = call.services.conf.placement
    request = query.parse_bounded(call.query, version, options)
    snapshot = call.services.index.snapshot(call.ctx)
    most = options.max_allocation_candidates
    form = answers.ResponseFormat(
        keyed=version >= mv.ALLOCATIONS_DICT,
        traits=version >= mv.CANDIDATES_TRAITS,
        all_classes=version >= mv.ALL_CLASSES,
        trees=version >= mv.NESTED_CANDIDATES,
        mappings=version >= mv.MAPPINGS)

    def find_most(parts: Sequence[RequestPart], on_one_provider: bool) -> int:
        return answers.count_room(
            snapshot, parts, form, options.max_candidates_size, on_one_provider=on_one_provider)

    candidates = search.find(
        snapshot, request, max_candidates=most if most >= 0 else None,
        strategy=options.allocation_candidates_generation_strategy,
        randomize=options.randomize_allocation_candidates,
        ordering=call.services.candidate_ordering,
        exclude_reserved=call.services.host_access is not None, find_most=find_most)
    body = answers.render(snapshot, request, candidates, form)
    return Reply(body=body, last_modified=NOW, cacheable=True)
