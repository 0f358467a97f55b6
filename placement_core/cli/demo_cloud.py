"""The small cloud of ``placement-core demo``: what it consists of, and how it is written.

It is the same each time, apart from the dates of its leases and random ids.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import uuid
from collections.abc import Callable, Iterator, Sequence

from placement_core.catalog import loading
from placement_core.context import Context
from placement_core.limits import limits, registered
from placement_core.placement import aggregates, inventories, providers, traits
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.services import Services

Say = Callable[[str], None]

_RACKS, _HOSTS_IN_RACK = 3, 10
_VCPUS, _MEMORY_MB, _DISK_GB = 32, 131072, 2000
_RESERVED_MB = 4096
_ALLOCATION_RATIO = 4.0
#: Hosts with GPUs, and those that are leased: their places in the second and third rack.
_GPU_HOSTS, _LEASED_HOSTS = {1, 2, 3}, {6, 7, 8, 9, 10}
_GPUS = 2
_TRAITS = {
    1: ["HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"], 2: ["HW_CPU_X86_AVX2"], 3: ["STORAGE_DISK_SSD"]}
_USER = "demo"

_REGION, _DOMAIN = "RegionOne", "demo"
#: Each project with its parent, and its limits of class:VCPU and servers.
_PROJECTS = (
    ("research", None, 600, 120),
    ("physics", "research", 300, 60),
    ("simulation", "physics", 200, 40),
    ("detector", "physics", 100, 10),
    ("biology", "research", 200, 40),
    ("web", None, 400, 80),
    ("shop", "web", 200, 40),
    ("shop-staging", "shop", 50, 10),
)
_DEFAULTS = {"class:VCPU": 100, "class:MEMORY_MB": 524288, "servers": 20}
#: VCPU, MEMORY_MB and DISK_GB of servers.
_FLAVORS = ((2, 4096, 20), (4, 8192, 40), (8, 32768, 80))
#: How many servers each project has.
_SERVERS = {"physics": 8, "simulation": 30, "detector": 10, "biology": 16, "shop": 24,
            "shop-staging": 4}

_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class _DemoHost:
    uuid: str
    rack: int
    number: int

    @property
    def name(self) -> str:
        return f"rack{self.rack}-host{self.number:02}"

    @property
    def is_leased(self) -> bool:
        """Whether it goes into the freepool, so that no server may be put there."""
        return self.rack == _RACKS and self.number in _LEASED_HOSTS


def fill(parts: Services, ctx: Context, say: Say) -> None:
    """Write the cloud into an empty database.

    :param say: is told in one line what was written.
    :raises errors.Error: something of it is there already, or does not fit the options.
    """
    project_ids = _add_projects(parts, ctx)
    say(f"{len(project_ids)} projects on three levels, with limits")
    hosts = [_add_host(ctx, rack, number) for rack in range(1, _RACKS + 1)
             for number in range(1, _HOSTS_IN_RACK + 1)]
    say(f"{len(hosts)} hosts in {_RACKS} racks")
    servers = list(_list_servers(project_ids, [host for host in hosts if not host.is_leased]))
    for server in servers:
        parts.claims.replace(ctx, [server])
    say(f"{len(servers)} servers")
    for host in hosts:
        if host.is_leased:
            parts.pool_hosts.register(ctx, host.name, {"rack": str(host.rack)})
    leases = [parts.leases.create(ctx, lease) for lease in _list_leases(project_ids)]
    say(f"{len(_LEASED_HOSTS)} hosts in the freepool, and {len(leases)} leases: "
        '"serve" starts those that are due')


def _add_projects(parts: Services, ctx: Context) -> dict[str, str]:
    """Write the catalog and its limits; return the ids of the projects by name."""
    entries = loading.load(ctx, {
        "regions": [{"id": _REGION}],
        "services": [{"type": "compute", "name": "nova"}],
        "domains": [{"name": _DOMAIN}],
        "projects": [
            {"name": name, "domain": _DOMAIN, **({"parent": parent} if parent else {})}
            for name, parent, *_ in _PROJECTS],
    }, max_depth=parts.model.max_depth)
    ids = {(entry.kind, entry.name): entry.id for entry in entries}
    what = {"service_id": ids["service", "nova"], "region_id": _REGION}
    registered.create_many(ctx, parts.catalog, [
        {**what, "resource_name": name, "default_limit": default}
        for name, default in _DEFAULTS.items()])
    project_ids = {name: ids["project", name] for name, *_ in _PROJECTS}
    limits.create_many(ctx, parts.catalog, parts.model, [
        {**what, "project_id": project_ids[name], "resource_name": resource,
         "resource_limit": limit}
        for name, _, vcpus, servers in _PROJECTS
        for resource, limit in (("class:VCPU", vcpus), ("servers", servers))])
    return project_ids


def _add_host(ctx: Context, rack: int, number: int) -> _DemoHost:
    host = _DemoHost(str(uuid.uuid4()), rack, number)
    providers.create(ctx, name=host.name, uuid=host.uuid)
    ratio = 1.0 if host.is_leased else _ALLOCATION_RATIO
    inventories.replace(ctx, host.uuid, {
        "VCPU": InventoryValues(_VCPUS, allocation_ratio=ratio),
        "MEMORY_MB": InventoryValues(_MEMORY_MB, reserved=_RESERVED_MB),
        "DISK_GB": InventoryValues(_DISK_GB),
    }, generation=0, allow_fully_reserved=True)
    traits.replace_for_provider(
        ctx, host.uuid, _TRAITS[rack], generation=providers.get(ctx, host.uuid).generation)
    # The hosts of a rack are an aggregate.
    aggregates.replace_for_provider(
        ctx, host.uuid, [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"rack{rack}.demo"))],
        generation=None)
    if rack == 2 and number in _GPU_HOSTS:
        for gpu in range(_GPUS):
            _add_gpu(ctx, host, gpu)
    return host


def _add_gpu(ctx: Context, host: _DemoHost, number: int) -> None:
    device = providers.create(ctx, name=f"{host.name}-gpu{number}", parent_uuid=host.uuid)
    inventories.replace(
        ctx, device.uuid, {"VGPU": InventoryValues(4)}, generation=device.generation,
        allow_fully_reserved=True)


def _list_servers(
    project_ids: dict[str, str], hosts: Sequence[_DemoHost]
) -> Iterator[AllocationWrite]:
    """Yield servers that fit. The first rack fills up, and the others hardly."""
    chance = random.Random(30)  # noqa: S311 (the same cloud each time)
    free_mb = dict.fromkeys(hosts, _MEMORY_MB - _RESERVED_MB)
    for project, count in _SERVERS.items():
        for _ in range(count):
            vcpus, memory_mb, disk_gb = chance.choice(_FLAVORS)
            fitting = [host for host in hosts if free_mb[host] >= memory_mb]
            host, = chance.choices(fitting, [4 if host.rack == 1 else 1 for host in fitting])
            free_mb[host] -= memory_mb
            yield AllocationWrite(
                str(uuid.uuid4()),
                {host.uuid: {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb}},
                project_id=project_ids[project], user_id=_USER, consumer_type="INSTANCE")


def _list_leases(project_ids: dict[str, str]) -> Iterator[NewLease]:
    """Yield leases of both kinds, of which some begin now and some later."""
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    slots = {"vcpus": 8, "memory_mb": 32768, "disk_gb": 100, "affinity": None}
    for name, project, first_day, days, reservation in (
        ("workshop", "shop-staging", None, 2,
         NewReservation("virtual:instance", {**slots, "amount": 6})),
        ("simulation-run", "simulation", None, 5, _reserve_hosts(1)),
        ("detector-test", "detector", 1, 3, _reserve_hosts(2)),
        ("course", "biology", 3, 4,
         NewReservation("virtual:instance", {**slots, "amount": 2, "affinity": False})),
        ("black-friday", "shop", 7, 3, _reserve_hosts(4)),
    ):
        start = None if first_day is None else now + first_day * _DAY
        yield NewLease(
            name, project_ids[project], _USER, start, (start or now) + days * _DAY,
            [reservation])


def _reserve_hosts(count: int) -> NewReservation:
    return NewReservation("physical:host", {
        "min": count, "max": count, "hypervisor_properties": "", "resource_properties": ""})
