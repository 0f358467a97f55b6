"""What is loaded into both sides: the same providers, the same allocations.

Every provider of every dataset has 3 resource classes, 5 traits and 2 aggregates.
All uuids are made from names, so that both sides, and two runs, have the same.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterator
from typing import Any

_NAMESPACE = uuid.UUID("9d0c2d2c-5f0f-4a51-9a1e-51b6d5f2a1c7")

RACKS = 40
ZONES = 3
DEVICES = 8
#: A host has what the one so many before has: racks, zones and traits come in turn.
PERIOD = math.lcm(RACKS, ZONES, 2)
#: What a claim takes from a flat host.
CLAIM = {"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 10}
#: Half of the allocations belong to the first, the rest to the others in equal parts.
BIG_PROJECT = "project-big"
SMALL_PROJECTS = 50
#: A full host is filled by so many consumers.
_PARTS = 20
_PART = {"VCPU": 51, "MEMORY_MB": 26112, "DISK_GB": 1024}

CUSTOM_TRAITS = ("CUSTOM_PHYSNET_0", "CUSTOM_PHYSNET_1")
CUSTOM_CLASSES = ("CUSTOM_GPU_MEMORY_MB",)

Inventories = dict[str, dict[str, Any]]


def uid(*parts: object) -> str:
    """Return the uuid that stands for some words."""
    return str(uuid.uuid5(_NAMESPACE, " ".join(map(str, parts))))


def rack(number: int) -> str:
    """Return the aggregate of a rack."""
    return uid("rack", number % RACKS)


def zone(number: int) -> str:
    """Return the aggregate of a zone."""
    return uid("zone", number % ZONES)


@dataclasses.dataclass(frozen=True)
class Provider:
    """One resource provider and what it has."""

    uuid: str
    name: str
    inventories: Inventories
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]
    parent: str | None = None


@dataclasses.dataclass(frozen=True)
class Claim:
    """What one consumer holds of one provider."""

    consumer: str
    provider: str
    resources: dict[str, int]
    project: str


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Hosts of one shape, and what is allocated on them.

    :ivar shape: a key of ``_SHAPES``.
    :ivar hosts: roots; a pool comes on top.
    :ivar percent_full: how much of the hosts is allocated, on average: hosts differ
        by up to 20 points, so that some of a nearly full dataset have no room.
    :ivar allocations: rows of allocations over all hosts, instead.
    """

    shape: str
    hosts: int
    percent_full: int = 0
    allocations: int = 0

    @property
    def name(self) -> str:
        """A name for files and databases."""
        filled = f"_full_{self.percent_full}" if self.percent_full else ""
        held = f"_allocations_{self.allocations}" if self.allocations else ""
        return f"{self.shape}_{self.hosts}{filled}{held}"

    @property
    def empty(self) -> Dataset:
        """The same hosts with nothing on them."""
        return Dataset(self.shape, self.hosts)

    def scaled(self, scale: float) -> Dataset:
        """Return the same kind of dataset in another size."""
        return dataclasses.replace(
            self, hosts=max(4, round(self.hosts * scale)),
            allocations=round(self.allocations * scale))

    def host(self, number: int) -> str:
        """Return the uuid of a host's root provider."""
        return uid(self.shape, number, "root")

    def units(self) -> Iterator[list[Provider]]:
        """Yield providers that must be made in order, tree by tree."""
        if self.shape == "pool":
            yield [_pool()]
        for number in range(self.hosts):
            yield self.unit(number)

    def unit(self, number: int) -> list[Provider]:
        """Return the providers of a host, from the root down."""
        return _SHAPES[self.shape](number)

    def claims(self) -> Iterator[Claim]:
        """Yield what is allocated."""
        for number in range(self.allocations // len(CLAIM)):
            yield self._claim(number, number % self.hosts, CLAIM)
        if self.percent_full:
            around = _PARTS * self.percent_full // 100
            number = 0
            for host in range(self.hosts):
                for _ in range(around - 2 + host % 5):
                    yield self._claim(number, host, _PART)
                    number += 1

    def _claim(self, number: int, host: int, resources: dict[str, int]) -> Claim:
        small = f"project-{number // 2 % SMALL_PROJECTS}"
        return Claim(uid("consumer", number), self.host(host), resources,
                     BIG_PROJECT if number % 2 == 0 else small)


def _traits(number: int, *more: str) -> tuple[str, ...]:
    """Return five traits: the given ones, some that vary, some that all have."""
    varying = (
        "HW_CPU_X86_AVX2" if number % 2 == 0 else "HW_CPU_X86_AVX",
        "STORAGE_DISK_SSD" if number % 3 == 0 else "STORAGE_DISK_HDD",
    )
    common = ("HW_CPU_X86_SSE2", "HW_CPU_X86_SSE42", "COMPUTE_VOLUME_MULTI_ATTACH")
    return (*more, *varying, *common)[:5]


def _around(number: int) -> tuple[str, ...]:
    return (rack(number), zone(number))


def _compute() -> Inventories:
    return {
        "VCPU": {"total": 64, "allocation_ratio": 16.0, "max_unit": 64},
        "MEMORY_MB": {"total": 524288, "reserved": 512, "min_unit": 128, "step_size": 128},
        "DISK_GB": {"total": 20480, "min_unit": 2, "step_size": 2},
    }


def _flat(number: int) -> list[Provider]:
    return [Provider(uid("flat", number, "root"), f"flat-{number:06d}", _compute(),
                     _traits(number), _around(number))]


def _pooled(number: int) -> list[Provider]:
    inventories = _compute()
    del inventories["DISK_GB"]
    inventories["PCPU"] = {"total": 8}
    shared = uid("pool", "aggregate")
    return [Provider(uid("pool", number, "root"), f"pooled-{number:06d}", inventories,
                     _traits(number), (rack(number), shared))]


def _pool() -> Provider:
    inventories = {
        "DISK_GB": {"total": 2_000_000_000},
        "IPV4_ADDRESS": {"total": 1000},
        "NUMA_SOCKET": {"total": 2},
    }
    traits = _traits(0, "MISC_SHARES_VIA_AGGREGATE")
    return Provider(uid("pool", "storage"), "pool", inventories, traits,
                    (uid("pool", "aggregate"), zone(0)))


def _tree(number: int) -> list[Provider]:
    """Return a host of 7 providers: a root, two NUMA nodes, two network devices on each."""
    def place(part: str) -> str:
        return uid("tree", number, part)

    def provider(part: str, above: str | None, inventories: Inventories, *traits: str) -> Provider:
        return Provider(place(part), f"tree-{number:06d}-{part}", inventories,
                        _traits(number, *traits), _around(number), place(above) if above else None)

    found = [provider("root", None, {
        "DISK_GB": {"total": 20480},
        "IPV4_ADDRESS": {"total": 64},
        "MEM_ENCRYPTION_CONTEXT": {"total": 15},
    })]
    for node in (0, 1):
        numa = f"numa{node}"
        found.append(provider(numa, "root", {
            "VCPU": {"total": 32, "allocation_ratio": 4.0, "max_unit": 32},
            "PCPU": {"total": 8},
            "MEMORY_MB": {"total": 131072, "min_unit": 256, "step_size": 256},
        }, "HW_NUMA_ROOT"))
        for device in (0, 1):
            found.append(provider(f"pf{node}{device}", numa, {
                "SRIOV_NET_VF": {"total": 8},
                "NET_BW_EGR_KILOBIT_PER_SEC": {"total": 10_000_000},
                "NET_BW_IGR_KILOBIT_PER_SEC": {"total": 10_000_000},
            }, "HW_NIC_SRIOV", f"CUSTOM_PHYSNET_{device}"))
    return found


def _devices(number: int) -> list[Provider]:
    """Return a host with 8 devices that nobody can tell apart."""
    root = uid("devices", number, "root")
    found = [Provider(root, f"devices-{number:06d}", _compute(), _traits(number), _around(number))]
    for device in range(DEVICES):
        found.append(Provider(
            uid("devices", number, device), f"devices-{number:06d}-{device}",
            {"PGPU": {"total": 1}, "VGPU": {"total": 16},
             "CUSTOM_GPU_MEMORY_MB": {"total": 81920}},
            _traits(number, "HW_GPU_API_VULKAN"), _around(number), root))
    return found


_SHAPES = {"flat": _flat, "pool": _pooled, "tree": _tree, "devices": _devices}
