"""/capacity/v1/claims: quota and capacity in one transaction, for good or held for a time."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from placement_core.http import pages
from placement_core.http.capacity_api.views import gangs
from placement_core.http.operations import Call, Reply
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claims, errors
from placement_core.quota.records import Claim

_PATH = "/capacity/v1/claims"
#: The default size of a page.
_PAGE = 1000


def create(call: Call) -> Reply:
    """Claim what new consumers are to hold; limits are enforced whatever the guard is."""
    body, services = call.body["claim"], call.services
    seconds, longest = body.get("hold_seconds"), services.conf.quota.longest_hold_seconds
    if seconds is not None and seconds > longest:
        raise errors.HoldTooLong(seconds, longest)
    if "find" in body:
        return gangs.claim(call)
    if "allocations" not in body or "dry_run" in body:
        raise errors.InvalidClaim(
            "A claim needs either allocations or find, and dry_run only goes with find.")
    consumer_uuid = body.get("consumer_uuid")
    consumer = str(uuid.UUID(consumer_uuid) if consumer_uuid is not None else uuid.uuid4())
    claim = services.claims.claim(
        call.ctx, AllocationWrite(
            consumer,
            {provider: item["resources"] for provider, item in body["allocations"].items()},
            body["project_id"], body["user_id"], body["consumer_type"],
            expected_generation=None),
        hold_seconds=seconds)
    return Reply(201, _wrap(claim), location=f"{_PATH}/{consumer}")


def list_(call: Call) -> Reply:
    """Return the claims that are held, or expired not long ago."""
    page = call.parse_page()
    page_of_claims, end = claims.list_(
        call.ctx, project_id=pages.get_last(call.query, "project_id"),
        state=pages.get_last(call.query, "state"),  # type: ignore[arg-type]  # (the schema's)
        after=int(page.marker or 0), most=page.size or _PAGE)
    next_url = None if end is None else pages.make_next_url(
        f"{call.prefix}{_PATH}", call.query, str(end))
    return Reply(body={
        "claims": [render(claim) for claim in page_of_claims], "links": {"next": next_url}})


def show(call: Call) -> Reply:
    """Return a claim."""
    return Reply(body=_wrap(claims.get(call.ctx, call.path["id"], call.services.owners)))


def confirm(call: Call) -> Reply:
    """Keep for good what a claim holds."""
    return Reply(body=_wrap(claims.confirm(call.ctx, call.path["id"], call.services.owners)))


def release(call: Call) -> Reply:
    """Give back what a claim holds."""
    claims.release(call.ctx, call.path["id"])
    return Reply(204)


def confirm_all(call: Call) -> Reply:
    """Keep for good what several claims hold, all or none."""
    uuids = _parse_uuids(call)
    claims.confirm_all(call.ctx, uuids)
    return Reply(body={"consumer_uuids": uuids})


def release_all(call: Call) -> Reply:
    """Give back what several claims hold."""
    return Reply(body={"consumer_uuids": claims.release_all(call.ctx, _parse_uuids(call))})


def _parse_uuids(call: Call) -> list[str]:
    return list(dict.fromkeys(str(uuid.UUID(each)) for each in call.body["consumer_uuids"]))


def _wrap(claim: Claim) -> dict[str, Any]:
    return {"claim": render(claim)}


def render(claim: Claim) -> dict[str, Any]:
    """Return the document of a claim."""
    return {
        "consumer_uuid": claim.consumer_uuid,
        "project_id": claim.project_id,
        "user_id": claim.user_id,
        "consumer_type": claim.consumer_type,
        "state": claim.state,
        "expires_at": claim.expires_at and claim.expires_at.replace(tzinfo=datetime.UTC),
        "allocations": {
            provider: {"resources": resources}
            for provider, resources in claim.allocations.items()},
    }
