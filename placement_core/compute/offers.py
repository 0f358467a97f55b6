"""Derive the inventories that a compute node offers from its record.

Nothing here reads a database. What cannot be parsed is left out with a remark; the rest
counts all the same.
Source: seed 001; spec nova_quota §4. Differs: max_unit is the most that one instance may take,
a total of 0 makes no inventory, and only processors that are never shared count as PCPU.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import os_resource_classes
from oslo_config import cfg

from placement_core import errors
from placement_core.compute.records import NodeRow
from placement_core.placement import inventories, locks, resource_classes
from placement_core.placement.records import InventoryValues

#: The type of devices in pools that have no type: those of nova before Liberty.
_PLAIN_DEVICE = "type-PCI"

_DISK = "DISK_GB"
#: The classes that are derived from ``numa_topology``.
_TOPOLOGY = ("PCPU", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB")


@dataclasses.dataclass(frozen=True, slots=True)
class OfferRules:
    """The options of ``[compute]`` that inventories depend on.

    :ivar ratios: {resource class: the allocation ratio of nodes that have none}.
    :ivar reserved: {resource class: the amount reserved for the host}, in units of the class.
    :ivar shared_storage: patterns of the names of nodes without disks of their own.
    :ivar pci_classes: {type of device: resource class}.
    :ivar max_units: {resource class: the most that one instance may have}.
    """

    ratios: Mapping[str, float]
    reserved: Mapping[str, int]
    shared_storage: Sequence[str]
    pci_classes: Mapping[str, str]
    max_units: Mapping[str, int]

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> OfferRules:
        """Read the options.

        :raises errors.ConfigurationError: a class or an amount is not valid.
        """
        group = conf.compute
        return cls(
            {"VCPU": group.cpu_allocation_ratio or group.initial_cpu_allocation_ratio,
             "MEMORY_MB": group.ram_allocation_ratio or group.initial_ram_allocation_ratio,
             _DISK: group.disk_allocation_ratio or group.initial_disk_allocation_ratio},
            {"VCPU": group.reserved_host_cpus, "MEMORY_MB": group.reserved_host_memory_mb,
             _DISK: math.ceil(group.reserved_host_disk_mb / 1024)},
            tuple(group.shared_storage_hosts),
            {device: _parse_class("pci_classes", name)
             for device, name in group.pci_classes.items()},
            {_parse_class("max_units", name): _parse_amount(name, amount)
             for name, amount in group.max_units.items()})

    def shares_storage(self, name: str) -> bool:
        """Return whether a node with this name has no disks of its own."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.shared_storage)


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a node offers.

    :ivar inventories: {resource class: values}.
    :ivar facts: {resource class: what the node's record says of it}. While they are the same,
        the node has not changed. They include neither options nor values that change with
        every instance (``disk_available_least``, ``local_gb_used``).
    :ivar remarks: what could not be parsed, in sentences.
    :ivar unclear: the classes of what could not be parsed: the node may have them or not.
    """

    inventories: Mapping[str, InventoryValues]
    facts: Mapping[str, Sequence[float | None]]
    remarks: Sequence[str]
    unclear: frozenset[str]


def parse_node(
    node: NodeRow, rules: OfferRules, *, devices: Mapping[str, int] | None = None,
    shared_storage: bool = False,
) -> Offer:
    """Return what a node offers.

    :param devices: {type of device: how many there are, in use or not}; None: use
        ``pci_stats``, where nova writes only the free ones.
    :param shared_storage: the node uses the disk of another provider.
    """
    return _NodeParser(node, rules).parse(devices, shared_storage)


class _InvalidField(ValueError):
    """A field of the node cannot be parsed."""


class _NodeParser:
    """Parses the record of one node."""

    def __init__(self, node: NodeRow, rules: OfferRules) -> None:
        self._node, self._rules = node, rules
        self._inventories: dict[str, InventoryValues] = {}
        self._facts: dict[str, Sequence[float | None]] = {}
        self._remarks: list[str] = []
        self._unclear: set[str] = set()

    def parse(self, devices: Mapping[str, int] | None, shared_storage: bool) -> Offer:
        node = self._node
        self._put_scaled("VCPU", node.vcpus, node.cpu_allocation_ratio)
        self._put_scaled("MEMORY_MB", node.memory_mb, node.ram_allocation_ratio)
        if not (shared_storage or self._rules.shares_storage(node.hypervisor_hostname or "")):
            self._put_scaled(
                _DISK, node.local_gb, node.disk_allocation_ratio, self._bound_disk())
        self._try("pci_stats", self._rules.pci_classes.values(), lambda: self._put_devices(
            _parse_device_pools(node.pci_stats) if devices is None else devices))
        self._try("numa_topology", _TOPOLOGY, lambda: self._put_topology(
            _parse_topology(node.numa_topology)))
        return Offer(
            self._inventories, self._facts, tuple(self._remarks), frozenset(self._unclear))

    def _try(self, field: str, names: Iterable[str], put: Callable[[], None]) -> None:
        """Put the inventories of the classes that are derived from a field."""
        try:
            put()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._remarks.append(f"{field} cannot be understood; nothing of it is counted")
            self._unclear.update(names)

    def _bound_disk(self) -> int | None:
        """Return how much disk one instance may have: what is free on a node without instances.

        With each instance one of the two values falls as the other one rises.
        """
        available = self._node.disk_available_least
        return None if available is None else max(available + self._node.local_gb_used, 1)

    def _put_scaled(
        self, name: str, total: object, ratio: float | None, bound: int | None = None
    ) -> None:
        self._put(
            name, total, bound=bound, ratio=ratio or self._rules.ratios[name],
            reserved=self._rules.reserved[name], fact=(ratio or None,))

    def _put_devices(self, counts: Mapping[str, int]) -> None:
        totals: dict[str, int] = collections.defaultdict(int)
        for device, count in counts.items():
            name = self._rules.pci_classes.get(device)
            if name is not None:
                totals[name] += count
            elif count:
                self._remarks.append(
                    f"{count} PCI devices are of type {device[:20]!r}, which [compute] "
                    "pci_classes does not have; they are not counted")
        for name, total in totals.items():
            self._put(name, total)

    def _put_topology(self, cells: Sequence[_NumaCell]) -> None:
        self._put("PCPU", sum(len(cell.dedicated) for cell in cells))
        sockets = {cell.socket if cell.socket is not None else f"of {number}"
                   for number, cell in enumerate(cells)}
        self._put("NUMA_SOCKET", len(sockets), bound=1)
        for name, amounts in (
                ("NUMA_CORE", [cell.cores for cell in cells]),
                ("NUMA_THREAD", [len(cell.cpus) for cell in cells]),
                ("NUMA_MEMORY_MB", [cell.memory for cell in cells])):
            largest = max(amounts, default=0)
            self._put(name, sum(amounts), bound=largest, fact=(largest,))

    def _put(
        self, name: str, total: object, *, bound: int | None = None, ratio: float = 1.0,
        reserved: int = 0, fact: Sequence[float | None] = (),
    ) -> None:
        """Add an inventory, unless its total is 0: placement has no rows for that."""
        if not isinstance(total, int) or isinstance(total, bool) or total < 0:
            self._remarks.append(f"there are {total!r} of {name}; they are not counted")
            self._unclear.add(name)
            return
        if not total:
            return
        largest = min(total, bound or total, self._rules.max_units.get(name, total))
        values = inventories.normalize(InventoryValues(
            total=total, reserved=min(reserved, total), max_unit=largest,
            allocation_ratio=ratio))
        if values is None or values.allocation_ratio <= 0:
            self._remarks.append(
                f"{total} of {name} with an allocation ratio of {ratio} cannot be; they are not "
                "counted")
            self._unclear.add(name)
            return
        self._inventories[name] = values
        self._facts[name] = (total, *fact)


# PCI devices -----------------------------------------------------------------


def _parse_device_pools(text: str | None) -> dict[str, int]:
    """Return {type of device: how many} of ``pci_stats``.

    It is a versioned object of nova (a list of pools), or the form of older releases: a list of
    plain JSON objects, or a single one.
    """
    counts: dict[str, int] = collections.defaultdict(int)
    data = _parse_json(text)
    if isinstance(data, dict) and "nova_object.data" in data:
        data = data["nova_object.data"]["objects"]
    for pool in _as_list(data):
        pool = pool.get("nova_object.data", pool)
        device = pool.get("dev_type") or pool.get("tags", {}).get("dev_type") or _PLAIN_DEVICE
        counts[str(device)] += _require_whole(pool["count"])
    return counts


# NUMA ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _NumaCell:
    """One NUMA cell of a host.

    :ivar cpus: all processors (threads) that instances may use.
    :ivar dedicated: the processors among them that are never shared.
    :ivar siblings: the threads of each core.
    """

    cpus: frozenset[int]
    dedicated: frozenset[int]
    siblings: Sequence[frozenset[int]]
    memory: int
    socket: int | None

    @property
    def cores(self) -> int:
        """The number of cores; a processor whose siblings are unknown counts as a core."""
        cores = [self.cpus & threads for threads in self.siblings if self.cpus & threads]
        return len(cores) + len(self.cpus.difference(*cores))


def _parse_topology(text: str | None) -> list[_NumaCell]:
    """Return the cells of ``numa_topology``: a nova object, or the form before Liberty."""
    data = _parse_json(text)
    if not data:
        return []
    if "nova_object.data" in data:
        cells = data["nova_object.data"]["cells"]
        return [_parse_cell(cell["nova_object.data"]) for cell in cells]
    return [_parse_old_cell(cell) for cell in data["cells"]]


def _parse_cell(data: Mapping[str, Any]) -> _NumaCell:
    shared = _parse_numbers(data["cpuset"])
    dedicated = _parse_numbers(data.get("pcpuset") or ())
    return _NumaCell(
        # A host without dedicated processors lists all of them in both.
        shared | dedicated, dedicated - shared,
        tuple(_parse_numbers(threads) for threads in data.get("siblings") or ()),
        _require_whole(data["memory"]), data.get("socket"))


def _parse_old_cell(data: Mapping[str, Any]) -> _NumaCell:
    return _NumaCell(
        frozenset(_parse_ranges(data.get("cpus", ""))), frozenset(), (),
        _require_whole(data.get("mem", {}).get("total", 0)), None)


def _parse_ranges(text: str) -> Iterator[int]:
    """Yield the numbers of a text such as ``0-3,5``; ``^2`` excludes the number 2."""
    excluded: set[int] = set()
    included: set[int] = set()
    for part in filter(None, (item.strip() for item in text.split(","))):
        first, _, last = part.lstrip("^").partition("-")
        numbers = range(_parse_index(first), _parse_index(last or first) + 1)
        (excluded if part.startswith("^") else included).update(numbers)
    yield from sorted(included - excluded)


def _parse_index(text: str) -> int:
    """Return the number of a processor; refuse numbers larger than any host has."""
    number = int(text)
    if not 0 <= number < 2**16:
        raise _InvalidField
    return number


# Values ----------------------------------------------------------------------


def _parse_json(text: str | None) -> Any:
    return json.loads(text) if text else None


def _as_list(data: Any) -> Sequence[Any]:
    if data is None:
        return ()
    return data if isinstance(data, list) else [data]


def _require_whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _InvalidField
    return value


def _parse_numbers(values: Iterable[object]) -> frozenset[int]:
    return frozenset(_require_whole(value) for value in values)


def _parse_class(option: str, name: str) -> str:
    if name in os_resource_classes.STANDARDS or resource_classes.is_custom_name(name):
        return name
    raise errors.ConfigurationError(
        f"[compute] {option}: {name}: expected a standard resource class, or a custom one "
        "(CUSTOM_…)")


def _parse_amount(name: str, text: str) -> int:
    try:
        amount = int(text)
    except ValueError:
        amount = 0
    if not 0 < amount <= locks.LARGEST_INTEGER:
        raise errors.ConfigurationError(
            f"[compute] max_units: {name}:{text}: expected a number from 1 on")
    return amount
