"""``/hosts/{uuid}``: a host, with all that belongs to it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from placement_core.http import pages
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import choices, projects, rendering, scopes, sections
from placement_core.http.dashboard.panels import calendar, room
from placement_core.http.dashboard.panels.calendar import LeaseBar
from placement_core.http.dashboard.pictures.timeline import Period
from placement_core.http.leases_api import policies as lease_policies
from placement_core.http.operations import Call, Reply
from placement_core.placement import provider_list
from placement_core.placement.allocations import consumer_list
from placement_core.placement.allocations.consumer_list import Consumer
from placement_core.placement.errors import ProviderNotFound
from placement_core.placement.room.groups import RoomFilter
from placement_core.reservations.errors import HostNotFound
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.records import Host

#: The rules of the sections.
RULES = (policies.ROOM_HOSTS, policies.CONSUMERS_LIST, lease_policies.HOSTS_GET,
         *scopes.LEASE_RULES)
_MOST_CONSUMERS, _MOST_LEASES = 50, 50


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerPage:
    """Some of the consumers with allocations on a provider.

    :ivar names: {id: name} of their projects.
    """

    consumers: Sequence[Consumer]
    names: Mapping[str, str]
    next_url: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class HostLeases:
    """The leases that have a host in the next days.

    :ivar names: {id: name} of their projects.
    :ivar picture: None: there are none.
    """

    leases: Sequence[LeaseBar]
    names: Mapping[str, str]
    picture: Markup | None


def show(call: Call) -> Reply:
    """Show a host, or another provider: inventories, consumers, leases, traits, aggregates."""
    uuid = call.path["uuid"]
    providers = provider_list.list_(call.ctx, in_tree=uuid)
    by_uuid = {provider.uuid: provider for provider in providers}
    if uuid not in by_uuid:
        raise ProviderNotFound(uuid)
    provider = by_uuid[uuid]
    root = by_uuid[provider.root_uuid]
    return rendering.render(
        call, "host.html", title=provider.name, provider=provider, root=root,
        providers=sorted(providers, key=lambda each: (each is not root, each.name)),
        room=sections.read(call, policies.ROOM_HOSTS, lambda: room.read_room(
            call, RoomFilter(in_tree=root.uuid))),
        pool_host=sections.read(
            call, lease_policies.HOSTS_GET, lambda: _find_pool_host(call, root.uuid)),
        leases=sections.read(
            call, lease_policies.LEASES_GET, lambda: _read_leases(call, root.uuid)),
        consumers=sections.read(
            call, policies.CONSUMERS_LIST, lambda: _read_consumers(call, uuid)))


def _read_consumers(call: Call, uuid: str) -> ConsumerPage:
    consumers = consumer_list.list_(
        call.ctx, provider_uuid=uuid, marker=pages.get_last(call.query, "after") or None,
        limit=_MOST_CONSUMERS + 1)
    last = consumers[_MOST_CONSUMERS - 1].uuid if len(consumers) > _MOST_CONSUMERS else None
    names = projects.find_names(call, {
        consumer.project_id for consumer in consumers[:_MOST_CONSUMERS]})
    return ConsumerPage(consumers[:_MOST_CONSUMERS], names, choices.make_next_url(
        call, f"/hosts/{uuid}", last))


def _find_pool_host(call: Call, root_uuid: str) -> Host | None:
    """Return the host as the freepool has it; None: it is not in there."""
    try:
        return host_queries.get(call.ctx, root_uuid)
    except HostNotFound:
        return None


def _read_leases(call: Call, root_uuid: str) -> HostLeases:
    scope = scopes.find_scope_of_leases(call)
    host = _find_pool_host(call, root_uuid)
    if scope is None or host is None:
        return HostLeases([], {}, None)
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    period = Period(now, now + calendar.AHEAD)
    page = calendar.read_leases(
        call, period, _MOST_LEASES, project_id=scope.project_id, host_id=host.id)
    names = projects.find_names(call, {lease.project_id for lease in page.leases})
    return HostLeases(page.leases, names, calendar.draw(
        call, "host-leases", period, now, None, page.leases) if page.leases else None)
