"""POST /capacity/v1/claims with ``find``: claims of several members wherever they fit."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import candidates as query
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.gangs import levels
from placement_core.placement.gangs.requests import GangRequest
from placement_core.quota import errors
from placement_core.quota.gang_claims import Gang, GangOwner

_LEVELS = ("within", "pack_by", "spread_by", "order_by")


def claim(call: Call) -> Reply:
    """Find room for the members of a gang, and claim it."""
    body, dry_run = call.body["claim"], call.body["claim"].get("dry_run", False)
    if not {"allocations", "mappings", "consumer_uuid"}.isdisjoint(body):
        raise errors.InvalidClaim(
            "With find, the service chooses the allocations: expected neither allocations nor "
            "mappings, and consumer_uuids in find instead of consumer_uuid.")
    owner = GangOwner(body["project_id"], body["user_id"], body["consumer_type"],
                      _choose_uuids(body["find"]))
    gang = call.services.gang_claims.claim(
        call.ctx, _parse(body["find"], call.services.conf.placement), owner,
        hold_seconds=body.get("hold_seconds"), dry_run=dry_run)
    return Reply(200 if dry_run else 201, {"claim": _render(gang, owner, dry_run=dry_run)})


def _choose_uuids(find: Mapping[str, Any]) -> list[str]:
    """Return the uuids of the members' consumers, new ones unless the caller names them."""
    named = find.get("consumer_uuids")
    if named is None:
        return [str(uuid.uuid4()) for _ in range(find["members"])]
    uuids = [str(uuid.UUID(each)) for each in named]
    if len(set(uuids)) != find["members"]:
        raise errors.InvalidClaim(
            f"consumer_uuids names {len(set(uuids))} consumers; expected one for each of "
            f"{find['members']} members.")
    return uuids


def _parse(find: Mapping[str, Any], options: cfg.ConfigOpts.GroupAttr) -> GangRequest:
    members = find["members"]
    return GangRequest(
        _parse_shape(find, options), members, find.get("min_members", members),
        max_per_host=find.get("max_per_host"),
        **{name: levels.parse(find[name]) for name in _LEVELS if name in find})


def _parse_shape(
    find: Mapping[str, Any], options: cfg.ConfigOpts.GroupAttr
) -> CandidatesRequest:
    """Return what a member needs, read as the query of allocation candidates."""
    parameters = _list_parameters(find, "")
    for suffix, group in find.get("groups", {}).items():
        parameters |= _list_parameters(group, suffix)
    if "group_policy" in find:
        parameters["group_policy"] = [find["group_policy"]]
    if "same_subtree" in find:
        parameters["same_subtree"] = [",".join(suffixes) for suffixes in find["same_subtree"]]
    if find.get("root_required"):
        parameters["root_required"] = [",".join(find["root_required"])]
    return query.parse_bounded(parameters, mv.NEWEST, options)


def _list_parameters(group: Mapping[str, Any], suffix: str) -> dict[str, list[str]]:
    """Return the parameters of a group, as a query has them."""
    parameters = {
        f"{name}{suffix}": list(group[name]) for name in ("required", "member_of")
        if group.get(name)}
    if "resources" in group:
        parameters[f"resources{suffix}"] = [
            ",".join(f"{name}:{amount}" for name, amount in group["resources"].items())]
    if "in_tree" in group:
        parameters[f"in_tree{suffix}"] = [group["in_tree"]]
    return parameters


def _render(gang: Gang, owner: GangOwner, *, dry_run: bool) -> dict[str, Any]:
    state = "confirmed" if gang.expires_at is None else "held"
    return {
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_type": owner.consumer_type,
        "state": None if dry_run else state,
        "expires_at": gang.expires_at and gang.expires_at.replace(tzinfo=datetime.UTC),
        "members": [{
            "consumer_uuid": consumer_uuid,
            "host": member.host,
            "domains": member.domains,
            "allocations": {
                provider: {"resources": resources}
                for provider, resources in member.allocations.items()},
        } for consumer_uuid, member in zip(owner.consumer_uuids, gang.members, strict=False)],
    }
