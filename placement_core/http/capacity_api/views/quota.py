"""/capacity/v1/quota/…: whether a project may have more; what it uses, and what is free.

A caller who passes the rule ``capacity:quota:all_projects`` may ask about all projects; others
about their own project and its subtree.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.cells import server_groups
from placement_core.http import pages
from placement_core.http.capacity_api import exceeded_limits, policies
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import visibility
from placement_core.http.limits_api.visibility import Visibility
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.counting import Count, MemberCount
from placement_core.quota import checks, explain as reasons, members, usage
from placement_core.quota.checks import CheckResult, CountCheckResult
from placement_core.quota.explain import QuotaExplanation
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.overview import ResourceColumn
from placement_core.quota.records import ExceededLimit, LimitUsage
from placement_core.quota.usage import ResourceQuota

_PATH = "/capacity/v1/quota"

Document = dict[str, Any]


def list_(call: Call) -> Reply:
    """Return the quota of all projects that the caller sees."""
    page = call.parse_page()
    overview = call.services.overviews.make(
        call.ctx, visibility.list_visible(call, _get_visibility(call)))
    ids = overview.project_ids
    first = bisect.bisect_right(ids, page.marker) if page.marker is not None else 0
    rows: Sequence[int] = range(first, len(ids))
    next_url = None
    if page.size is not None and len(rows) > page.size:
        rows = rows[:page.size]
        next_url = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, ids[rows[-1]])
    columns = [(name, _render_column(column)) for name, column in overview.resources.items()]
    return Reply(body={
        "projects": [
            {"project_id": ids[row], "name": overview.names.get(ids[row]),
             "resources": {name: cells[row] for name, cells in columns}}
            for row in rows],
        **_render_count(overview.count),
        "limits_of": _render_limits_of(call),
        "links": {"next": next_url}})


def show(call: Call) -> Reply:
    """Return the quota of one project."""
    project_id = call.path["project_id"]
    _require_sight(call, project_id, policies.QUOTA_SHOW)
    user_id = pages.get_last(call.query, "user_id")
    project_quota = usage.get_project_quota(
        call.ctx, call.services.quota, project_id, user_id)
    body: Document = {
        "project_id": project_id, "resources": _render_shares(project_quota.resources)}
    if project_quota.of_user is not None:
        body["user"] = {"user_id": user_id, "resources": _render_shares(project_quota.of_user)}
    return Reply(body={
        **body, **_render_count(project_quota.count), "limits_of": _render_limits_of(call)})


def check(call: Call) -> Reply:
    """Say whether a request fits, or how many of its items do, or whether it may stay."""
    _require_sight(call, call.body["project_id"], policies.QUOTA_CHECK)
    return Reply(body=_render_answer(call, _check(call)))


def explain(call: Call) -> Reply:
    """Say what stops a request, and what would have to go; or how much more would fit."""
    _require_sight(call, call.body["project_id"], policies.EXPLAIN_QUOTA)
    body = call.body
    deltas = body.get("deltas") or {
        name: amount * body["max_count"] for name, amount in body["per_item"].items()}
    explanation = reasons.explain(
        call.ctx, call.services.quota, _check(call), deltas,
        visible=visibility.list_visible(call, _get_visibility(call)))
    return Reply(body={
        **_render_answer(call, explanation.answer), **_render_reasons(explanation)})


def server_group_members(call: Call) -> Reply:
    """Count the members of a user in a server group."""
    body = call.body
    _require_sight(call, body["project_id"], policies.QUOTA_MEMBERS)
    uuids = body["members"] if "members" in body else server_groups.list_members(
        call.ctx, call.services.cells, body["group"], project_id=body["project_id"])
    answer = members.check(
        call.ctx, call.services.quota, project_id=body["project_id"],
        user_id=body["user_id"], uuids=uuids, asked=body.get("asked", 0))
    return Reply(body={
        "members": answer.count.members, "limit": amounts.to_wire(answer.limit),
        "asked": answer.asked, "fits": answer.fits, **_render_count(answer.count),
        "limits_of": _render_limits_of(call)})


def _check(call: Call) -> CheckResult:
    body, enforcer = call.body, call.services.quota
    project_id, user_id = body["project_id"], body.get("user_id")
    if "per_item" in body:
        return checks.check_many(
            call.ctx, enforcer, project_id=project_id, user_id=user_id,
            per_item=body["per_item"], min_count=body["min_count"], max_count=body["max_count"])
    if body.get("recheck"):
        # A re-check is recorded, and decides about other requests.
        if not call.allows(policies.QUOTA_RECHECK):
            raise NotAllowed(policies.QUOTA_RECHECK)
        return call.services.rechecks.recheck(
            call.ctx, project_id=project_id, user_id=user_id,
            names=body["deltas"].keys(), uuids=body["consumers"])
    return checks.check(
        call.ctx, enforcer, project_id=project_id, user_id=user_id, deltas=body["deltas"])


# Visibility -----------------------------------------------------------------


def _get_visibility(call: Call) -> Visibility:
    return dataclasses.replace(visibility.get_visibility(call, policies.QUOTA_OF_ALL), above=False)


def _require_sight(call: Call, project_id: str, rule: str) -> None:
    if not visibility.can_see(call, _get_visibility(call), project_id):
        raise NotAllowed(rule)


# Documents ------------------------------------------------------------------


def _render_count(count: Count | MemberCount | None) -> Document:
    if count is None:
        return {"source": None, "missing_cells": [], "seconds": {}}
    return {
        "source": count.source,
        "missing_cells": [dataclasses.asdict(cell) for cell in count.missing_cells],
        "seconds": {name: round(took, 6) for name, took in count.seconds.items()}}


def _render_limits_of(call: Call) -> Document:
    """Return the service and regions whose limits count."""
    return _render_service_key(call, call.services.quota.service_key(call.ctx))


def _render_service_key(call: Call, key: ServiceKey | None) -> Document:
    return {
        "service_type": call.services.quota.source.service_type,
        "service_id": None if key is None else key.service_id,
        "region_ids": [] if key is None else key.region_ids}


def _render_answer(call: Call, answer: CheckResult) -> Document:
    subject = answer.measure.subject
    body: Document = {
        "project_id": subject.project_id,
        "fits": answer.fits,
        "excesses": _render_exceeded_limits(answer.exceeded_limits)}
    if isinstance(answer, CountCheckResult):
        body["count"] = answer.fitting
        body["held_by"] = _render_exceeded_limits(answer.held_by)
    return {
        **body, **_render_count(answer.count), "limits_of": _render_service_key(call, subject.key),
        "unregistered": subject.unregistered(answer.measure.limit_usages)}


def _render_exceeded_limits(exceeded: Iterable[ExceededLimit]) -> list[Document]:
    return [exceeded_limits.render_exceeded_limit(limit) for limit in exceeded]


def _render_bound(bound: LimitUsage | None) -> Document | None:
    return None if bound is None else {
        "node_id": bound.node_id, "scope": bound.scope, "source": bound.source,
        "limit": amounts.to_wire(bound.limit), "used": bound.used, "user_id": bound.user_id}


def _render_reasons(explanation: QuotaExplanation) -> Document:
    return {
        "stops": [
            {**exceeded_limits.render_exceeded_limit(stop.exceeded_limit),
             "sentence": stop.sentence, "enough": stop.enough,
             "consumers": [dataclasses.asdict(holder) for holder in stop.holders]}
            for stop in explanation.stops],
        "more": {more.resource_name: {
            "amount": amounts.to_wire(more.amount), "tightest": _render_bound(more.bound),
            "sentence": more.sentence} for more in explanation.more},
        "summary": explanation.sentences}


def _render_shares(shares: Mapping[str, ResourceQuota]) -> Document:
    return {
        name: {"limit": amounts.to_wire(share.limit), "source": share.source,
               "used": share.used, "free": _to_wire(share.free),
               "tightest": _render_bound(share.tightest)}
        for name, share in shares.items()}


def _render_column(column: ResourceColumn) -> list[Document]:
    """Return the documents of one resource, a project each."""
    unknown = [None] * len(column.limits)
    return [
        {"limit": limit, "source": source, "used": used, "free": free, "held_by": held_by}
        for limit, source, used, free, held_by in zip(
            column.limits, column.sources, column.used or unknown, column.free or unknown,
            column.held_by, strict=True)]


def _to_wire(amount: Amount | None) -> int | None:
    return None if amount is None else amounts.to_wire(amount)
