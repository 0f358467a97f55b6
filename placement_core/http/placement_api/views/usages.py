"""/resource_providers/{uuid}/usages and /usages."""

from __future__ import annotations

from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api import microversions as mv, representations
from placement_core.placement.usage import usages


def show_for_provider(call: Call) -> Reply:
    """Return how much of each class of a provider is used."""
    item = usages.for_provider(call.ctx, call.path["uuid"])
    return Reply(body=representations.render_provider_usages(item), last_modified=NOW,
                 cacheable=True)


def list_(call: Call) -> Reply:
    """Return what a project, or a user in it, uses; from 1.38 on by consumer type."""
    query = {name: texts[-1] for name, texts in call.query.items()}
    consumer_type = query.get("consumer_type")
    by_type = usages.for_project(
        call.ctx, query["project_id"], user_id=query.get("user_id"),
        consumer_type=consumer_type or usages.ALL_TYPES)
    if call.microversion < mv.CONSUMER_TYPES:
        document = representations.render_usages(by_type)
    elif consumer_type == usages.ALL_TYPES:
        document = representations.render_usages_of_all_types(by_type)
    else:
        document = representations.render_usages_by_type(by_type)
    return Reply(body=document, last_modified=NOW, cacheable=True)
