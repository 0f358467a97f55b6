"""/capacity/v1/quota/…: whether somebody may have more; what they have, and could have.

Who passes the rule ``capacity:quota:all_projects`` asks about everybody; others about their
own project and those below it.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.cells import server_groups
from placement_core.http import pages
from placement_core.http.capacity_api import overruns, policies
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import visibility
from placement_core.http.limits_api.visibility import Visibility
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.counting import Count, MemberCount
from placement_core.quota import checks, explain as reasons, members, rechecks, usage
from placement_core.quota.checks import Answer, CountAnswer
from placement_core.quota.explain import Explanation
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.overview import Column
from placement_core.quota.records import Bound
from placement_core.quota.usage import Share

_PATH = "/capacity/v1/quota"

Document = dict[str, Any]


def list_(call: Call) -> Reply:
    """Return the quota of all projects that the caller sees."""
    page = pages.parse_page(call.query)
    overview = call.services.overviews.make(
        call.ctx, visibility.list_visible(call, _get_visibility(call)))
    ids = overview.project_ids
    first = bisect.bisect_right(ids, page.marker) if page.marker is not None else 0
    rows: Sequence[int] = range(first, len(ids))
    following = None
    if page.size is not None and len(rows) > page.size:
        rows = rows[:page.size]
        following = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, ids[rows[-1]])
    columns = [(name, _cells(column)) for name, column in overview.resources.items()]
    return Reply(body={
        "projects": [
            {"project_id": ids[row], "name": overview.names.get(ids[row]),
             "resources": {name: cells[row] for name, cells in columns}}
            for row in rows],
        **_counted(overview.count),
        "limits_of": _limits_of(call),
        "links": {"next": following}})


def show(call: Call) -> Reply:
    """Return the quota of one project."""
    project_id = call.path["project_id"]
    _require_sight(call, project_id, policies.QUOTA_SHOW)
    user_id = pages.get_last(call.query, "user_id")
    found = usage.of_project(call.ctx, call.services.quota, project_id, user_id)
    body: Document = {"project_id": project_id, "resources": _shares(found.shares)}
    if found.of_user is not None:
        body["user"] = {"user_id": user_id, "resources": _shares(found.of_user)}
    return Reply(body={**body, **_counted(found.count), "limits_of": _limits_of(call)})


def check(call: Call) -> Reply:
    """Say whether a request fits, or how many of its items do, or whether it may stay."""
    _require_sight(call, call.body["project_id"], policies.QUOTA_CHECK)
    return Reply(body=_answer(call, _asked(call)))


def explain(call: Call) -> Reply:
    """Say what stops a request, and what would have to go; or how much more would fit."""
    _require_sight(call, call.body["project_id"], policies.EXPLAIN_QUOTA)
    body = call.body
    asked = body.get("deltas") or {
        name: amount * body["max_count"] for name, amount in body["per_item"].items()}
    found = reasons.explain(
        call.ctx, call.services.quota, _asked(call), asked,
        visible=visibility.list_visible(call, _get_visibility(call)))
    return Reply(body={**_answer(call, found.answer), **_reasons(found)})


def server_group_members(call: Call) -> Reply:
    """Count the members of a user in a server group."""
    body = call.body
    _require_sight(call, body["project_id"], policies.QUOTA_MEMBERS)
    uuids = body["members"] if "members" in body else server_groups.members(
        call.ctx, call.services.cells, body["group"], project_id=body["project_id"])
    found = members.check(
        call.ctx, call.services.quota, project_id=body["project_id"],
        user_id=body["user_id"], uuids=uuids, asked=body.get("asked", 0))
    return Reply(body={
        "members": found.count.members, "limit": amounts.to_wire(found.limit),
        "asked": found.asked, "fits": found.fits, **_counted(found.count),
        "limits_of": _limits_of(call)})


def _asked(call: Call) -> Answer:
    body, enforcer = call.body, call.services.quota
    project_id, user_id = body["project_id"], body.get("user_id")
    if "per_item" in body:
        return checks.check_many(
            call.ctx, enforcer, project_id=project_id, user_id=user_id,
            per_item=body["per_item"], min_count=body["min_count"], max_count=body["max_count"])
    if body.get("recheck"):
        # What is noted decides about others.
        if not call.allows(policies.QUOTA_RECHECK):
            raise NotAllowed(policies.QUOTA_RECHECK)
        return rechecks.recheck(
            call.ctx, enforcer, project_id=project_id, user_id=user_id,
            names=body["deltas"].keys(), uuids=body["consumers"])
    return checks.check(
        call.ctx, enforcer, project_id=project_id, user_id=user_id, deltas=body["deltas"])


# Who may ask about whom -----------------------------------------------------


def _get_visibility(call: Call) -> Visibility:
    return dataclasses.replace(visibility.get_visibility(call, policies.QUOTA_OF_ALL), above=False)


def _require_sight(call: Call, project_id: str, rule: str) -> None:
    if not visibility.can_see(call, _get_visibility(call), project_id):
        raise NotAllowed(rule)


# What answers look like -----------------------------------------------------


def _counted(count: Count | MemberCount | None) -> Document:
    if count is None:
        return {"source": None, "missing_cells": [], "seconds": {}}
    return {
        "source": count.source,
        "missing_cells": [dataclasses.asdict(cell) for cell in count.missing_cells],
        "seconds": {name: round(took, 6) for name, took in count.seconds.items()}}


def _limits_of(call: Call) -> Document:
    """Return whose limits count."""
    return _source(call, call.services.quota.service_key(call.ctx))


def _source(call: Call, key: ServiceKey | None) -> Document:
    return {
        "service_type": call.services.quota.rules.service_type,
        "service_id": None if key is None else key.service_id,
        "region_ids": [] if key is None else key.region_ids}


def _answer(call: Call, answer: Answer) -> Document:
    subject = answer.measure.subject
    body: Document = {
        "project_id": subject.project_id,
        "fits": answer.fits,
        "excesses": [overruns.render_overrun(each) for each in answer.overruns]}
    if isinstance(answer, CountAnswer):
        body["count"] = answer.fitting
        body["held_by"] = [overruns.render_overrun(each) for each in answer.held_by]
    return {
        **body, **_counted(answer.count), "limits_of": _source(call, subject.key),
        "unregistered": subject.unregistered(answer.measure.bounds)}


def _bound(bound: Bound | None) -> Document | None:
    return None if bound is None else {
        "node_id": bound.node_id, "scope": bound.scope, "source": bound.source,
        "limit": amounts.to_wire(bound.limit), "used": bound.used, "user_id": bound.user_id}


def _reasons(found: Explanation) -> Document:
    return {
        "stops": [
            {**overruns.render_overrun(each.overrun), "sentence": each.sentence,
             "enough": each.enough,
             "consumers": [dataclasses.asdict(holder) for holder in each.holders]}
            for each in found.stops],
        "more": {each.resource_name: {
            "amount": amounts.to_wire(each.amount), "tightest": _bound(each.bound),
            "sentence": each.sentence} for each in found.more},
        "summary": found.sentences}


def _shares(shares: Mapping[str, Share]) -> Document:
    return {
        name: {"limit": amounts.to_wire(share.limit), "source": share.source,
               "used": share.used, "free": _wire(share.free), "tightest": _bound(share.tightest)}
        for name, share in shares.items()}


def _cells(column: Column) -> list[Document]:
    """Return the documents of one resource, a project each."""
    unknown = [None] * len(column.limits)
    return [
        {"limit": limit, "source": source, "used": used, "free": free, "held_by": held_by}
        for limit, source, used, free, held_by in zip(
            column.limits, column.sources, column.used or unknown, column.free or unknown,
            column.held_by, strict=True)]


def _wire(amount: Amount | None) -> int | None:
    return None if amount is None else amounts.to_wire(amount)
