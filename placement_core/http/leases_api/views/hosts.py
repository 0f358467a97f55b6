"""/v1/os-hosts, and /v1/os-hosts/{id}."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.leases_api import queries, representations, requests
from placement_core.http.operations import Call, Reply
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.records import Host


def list_(call: Call) -> Reply:
    """Return the hosts of the freepool."""
    page = call.parse_cut_page()
    hosts = host_queries.page(
        call.ctx, after=queries.parse_number(call.query, "marker"), limit=page.size_to_read)
    body = {"hosts": [representations.render_host(host) for host in hosts[:page.size]]}
    if page.size is not None and len(hosts) > page.size:
        body["hosts_links"] = [{"rel": "next", "href": pages.make_next_url(
            f"{call.prefix}/v1/os-hosts", call.query, str(hosts[page.size - 1].id))}]
    return Reply(body=body)


def create(call: Call) -> Reply:
    """Add a host to the freepool."""
    name, capabilities = requests.parse_new_host(call.body)
    return _build_reply(call.services.pool_hosts.register(call.ctx, name, capabilities), 201)


def show(call: Call) -> Reply:
    """Return a host."""
    return _build_reply(host_queries.get(call.ctx, call.path["id"]))


def update(call: Call) -> Reply:
    """Change capabilities of a host, or whether it is reservable."""
    change = requests.parse_host_change(call.body)
    return _build_reply(call.services.pool_hosts.change(
        call.ctx, call.path["id"], change.capabilities, name=change.name,
        reservable=change.reservable, reason=change.down_reason))


def delete(call: Call) -> Reply:
    """Remove a host from the freepool."""
    call.services.pool_hosts.remove(call.ctx, call.path["id"])
    return Reply(204)


def _build_reply(item: Host, status: int = 200) -> Reply:
    return Reply(status, {"host": representations.render_host(item)})
