"""GET /capacity/v1/consumers: consumers with their owners and allocations."""

from __future__ import annotations

from typing import Any

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.placement.allocations import consumer_list
from placement_core.placement.allocations.consumer_list import Consumer
from placement_core.placement.records import UNKNOWN_TYPE

_PATH = "/capacity/v1/consumers"
#: The default size of a page: there are very many consumers.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the consumers that match every filter of the query, by uuid."""
    page = call.parse_page()
    size = page.size or _PAGE
    records = consumer_list.list_(
        call.ctx, project_id=pages.get_last(call.query, "project_id"),
        user_id=pages.get_last(call.query, "user_id"),
        consumer_type=pages.get_last(call.query, "consumer_type"),
        provider_uuid=pages.get_last(call.query, "resource_provider"),
        marker=page.marker, limit=size + 1)
    listed, links = pages.split_page(
        f"{call.prefix}{_PATH}", call.query, records, size, lambda consumer: consumer.uuid)
    return Reply(body={"consumers": [render(consumer) for consumer in listed], "links": links})


def render(consumer: Consumer) -> dict[str, Any]:
    """Return the document of a consumer."""
    return {
        "uuid": consumer.uuid,
        "consumer_type": consumer.consumer_type or UNKNOWN_TYPE,
        "consumer_generation": consumer.generation,
        "project_id": consumer.project_id,
        "user_id": consumer.user_id,
        "created_at": consumer.created_at,
        "updated_at": consumer.updated_at,
        "allocations": {
            uuid: {"resources": resources} for uuid, resources in consumer.allocations.items()},
    }
