"""GET /capacity/v1/room/fits: how many more of a request fit."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.operations import NOW, Call, Reply
from placement_core.http.placement_api.queries import candidates as query
from placement_core.placement.room import fits

#: How many hosts are listed by default.
_PAGE = 1000


def show(call: Call) -> Reply:
    """Return how many more of a request fit, on which hosts, and what stops the next one."""
    request = query.parse_bounded(
        call.query, call.microversion, call.services.conf.placement)
    most_hosts = request.limit or _PAGE
    pages.check_size(most_hosts, call.services.conf.api.max_page_size)
    request_fits = fits.find(
        call.services.index.snapshot(call.ctx), request,
        most_hosts=most_hosts,
        exclude_reserved=call.services.host_access is not None)
    return Reply(body=request_fits, last_modified=NOW, cacheable=True)
