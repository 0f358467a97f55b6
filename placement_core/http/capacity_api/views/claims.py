"""/capacity/v1/claims: quota and capacity in one transaction, for good or held for a time."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claims, errors
from placement_core.quota.records import Claim

_PATH = "/capacity/v1/claims"
#: Of a page whose size nobody named.
_PAGE = 1000


def create(call: Call) -> Reply:
    """Take what a new consumer shall hold; limits are enforced whatever the guard is."""
    asked, services = call.body["claim"], call.services
    seconds, longest = asked.get("hold_seconds"), services.conf.quota.longest_hold_seconds
    if seconds is not None and seconds > longest:
        raise errors.HoldTooLong(seconds, longest)
    given = asked.get("consumer_uuid")
    consumer = str(uuid.UUID(given) if given is not None else uuid.uuid4())
    made = services.claims.claim(
        call.ctx, AllocationWrite(
            consumer,
            {provider: item["resources"] for provider, item in asked["allocations"].items()},
            asked["project_id"], asked["user_id"], asked["consumer_type"],
            expected_generation=None),
        hold_seconds=seconds)
    return Reply(201, _one(made), location=f"{_PATH}/{consumer}")


def list_(call: Call) -> Reply:
    """Return the claims that are held, or expired not long ago."""
    page = pages.parse_page(call.query)
    found, end = claims.list_(
        call.ctx, project_id=pages.get_last(call.query, "project_id"),
        state=pages.get_last(call.query, "state"),  # type: ignore[arg-type]  # (the schema's)
        after=int(page.marker or 0), most=page.size or _PAGE)
    following = None if end is None else pages.make_next_url(
        f"{call.prefix}{_PATH}", call.query, str(end))
    return Reply(body={
        "claims": [_document(item) for item in found], "links": {"next": following}})


def show(call: Call) -> Reply:
    """Return a claim."""
    return Reply(body=_one(claims.get(call.ctx, call.path["id"])))


def confirm(call: Call) -> Reply:
    """Keep for good what a claim holds."""
    return Reply(body=_one(claims.confirm(call.ctx, call.path["id"])))


def release(call: Call) -> Reply:
    """Give back what a claim holds."""
    claims.release(call.ctx, call.path["id"])
    return Reply(204)


def _one(item: Claim) -> dict[str, Any]:
    return {"claim": _document(item)}


def _document(item: Claim) -> dict[str, Any]:
    return {
        "consumer_uuid": item.consumer_uuid,
        "project_id": item.project_id,
        "user_id": item.user_id,
        "consumer_type": item.consumer_type,
        "state": item.state,
        "expires_at": item.expires_at and item.expires_at.replace(tzinfo=datetime.UTC),
        "allocations": {
            provider: {"resources": resources}
            for provider, resources in item.allocations.items()},
    }
