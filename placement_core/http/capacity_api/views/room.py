"""GET /capacity/v1/room…: how much there is, is used, held, promised to leases, and free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from placement_core import errors
from placement_core.http import pages
from placement_core.http.capacity_api import policies
from placement_core.http.errors import NotAllowed
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api.queries import values
from placement_core.placement.room.groups import GroupedBy, RoomFilter
from placement_core.placement.room.sums import Room
from placement_core.room import GroupRoom

_PATH = "/capacity/v1/room"
#: The default size of a page.
_PAGE = 1000


def show(call: Call) -> Reply:
    """Return the room of all providers that match every filter, or of groups of them."""
    by = cast(GroupedBy | None, pages.get_last(call.query, "group_by"))
    if (by == "root" or "in_tree" in call.query) and not call.allows(policies.ROOM_HOSTS):
        raise NotAllowed(policies.ROOM_HOSTS)
    if by is not None:
        groups, links = _read_page(call, by, _PATH)
        return Reply(body={
            "group_by": by, "groups": [_render_group(by, group) for group in groups],
            "links": links})
    if "limit" in call.query or "marker" in call.query:
        raise errors.Invalid(
            "limit and marker select pages of groups: expected group_by, too.")
    return Reply(body={"resources": _render_resources(
        call.services.room.measure(call.ctx, _parse_filter(call)))})


def list_hosts(call: Call) -> Reply:
    """Return the room of each root provider that matches every filter, by uuid."""
    groups, links = _read_page(call, "root", f"{_PATH}/hosts")
    return Reply(body={
        "hosts": [_render_group("root", group) for group in groups], "links": links})


def _read_page(
    call: Call, by: GroupedBy, path: str
) -> tuple[Sequence[GroupRoom], dict[str, str | None]]:
    """Return a page of groups, and its links."""
    page = call.parse_page()
    size = page.size or _PAGE
    groups = call.services.room.list_groups(
        call.ctx, by, _parse_filter(call), marker=page.marker, limit=size + 1)
    return pages.split_page(
        f"{call.prefix}{path}", call.query, groups, size, lambda group: group.key)


def _parse_filter(call: Call) -> RoomFilter:
    """Parse the filters; traits and aggregates as GET /resource_providers has them.

    :raises errors.Invalid: one of them is misformed.
    """
    query = call.query
    return RoomFilter(
        resource_class=pages.get_last(query, "resource_class"),
        in_tree=pages.get_last(query, "in_tree"),
        traits=values.parse_traits(query.get("required", ()), call.microversion),
        aggregates=values.parse_aggregates(query.get("member_of", ()), call.microversion))


def _render_group(by: GroupedBy, group: GroupRoom) -> dict[str, Any]:
    names: dict[GroupedBy, dict[str, Any]] = {
        "trait": {"name": group.key}, "aggregate": {"uuid": group.key},
        "root": {"uuid": group.key, "name": group.name}}
    return {**names[by], "resources": _render_resources(group.resources)}


def _render_resources(resources: Mapping[str, Room]) -> dict[str, dict[str, int]]:
    return {resource_class: room._asdict() for resource_class, room in resources.items()}
