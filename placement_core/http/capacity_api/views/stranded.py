"""GET /capacity/v1/room/stranded: which room no usual request can use."""

from __future__ import annotations

from placement_core.http.capacity_api import policies
from placement_core.http.operations import NOW, Call, Reply
from placement_core.placement.room import stranded

#: How many hosts are listed by default.
_PAGE = 1000


def show(call: Call) -> Reply:
    """Return what no usual request can use, by cause, and the hosts that lose most.

    Hosts are listed for callers who may see them.
    """
    most_hosts = call.parse_page().size or _PAGE
    stranded_room = stranded.find(
        call.services.index.snapshot(call.ctx), call.services.shapes,
        most_hosts=most_hosts if call.allows(policies.ROOM_HOSTS) else None,
        exclude_reserved=call.services.host_access is not None)
    return Reply(body=stranded_room, last_modified=NOW, cacheable=True)
