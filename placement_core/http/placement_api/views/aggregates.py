"""/resource_providers/{uuid}/aggregates."""

from __future__ import annotations

from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api import microversions as mv, representations
from placement_core.placement import aggregates
from placement_core.placement.records import ProviderAggregates


def show(call: Call) -> Reply:
    """Return the aggregates that a provider is a member of."""
    return _make_reply(call, aggregates.list_for_provider(call.ctx, call.path["uuid"]))


def replace(call: Call) -> Reply:
    """Make a provider a member of these; below 1.19 whatever its generation is."""
    uuids, generation = call.body, None
    if call.microversion >= mv.AGGREGATES_GENERATION:
        uuids, generation = uuids["aggregates"], uuids["resource_provider_generation"]
    return _make_reply(call, aggregates.replace_for_provider(
        call.ctx, call.path["uuid"], uuids, generation=generation))


def _make_reply(call: Call, item: ProviderAggregates) -> Reply:
    return Reply(
        body=representations.render_provider_aggregates(item, call.microversion),
        last_modified=NOW, cacheable=True)
