"""Records of compute nodes, and fields of theirs as nova 34.0.0 serialises them."""

from __future__ import annotations

import json
from typing import Any

from placement_core.compute.records import NodeRow


def row(**values: Any) -> NodeRow:
    """Return the row of a host of 16 processors, 64 GiB of memory and 1,000 GiB of disk."""
    return NodeRow(**{
        "id": 1, "uuid": "00000000-0000-0000-0000-000000000001", "host": "host-1",
        "hypervisor_hostname": "host-1.example", "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000, "vcpus": 16, "memory_mb": 65536, "local_gb": 1000,
        "cpu_allocation_ratio": 16.0, "ram_allocation_ratio": 1.5,
        "disk_allocation_ratio": 1.0, "local_gb_used": 0, "disk_available_least": None,
        "pci_stats": None, "numa_topology": None, "created_at": None, "updated_at": None,
        **values})


def numa_cell(
    number: int, cpus: list[int], *, dedicated: list[int] | None = None,
    siblings: list[list[int]] | None = None, memory: int = 32768, socket: int | None = None,
) -> dict[str, Any]:
    """Return a NUMACell 1.5."""
    return {
        "nova_object.name": "NUMACell", "nova_object.namespace": "nova",
        "nova_object.version": "1.5",
        "nova_object.data": {
            "id": number, "cpuset": cpus, "pcpuset": dedicated or [], "memory": memory,
            "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": siblings or [],
            "mempages": [{
                "nova_object.name": "NUMAPagesTopology", "nova_object.namespace": "nova",
                "nova_object.version": "1.1",
                "nova_object.data": {"size_kb": 4, "total": 8388608, "used": 0, "reserved": 0},
                "nova_object.changes": ["used", "total", "size_kb", "reserved"]}],
            "network_metadata": {
                "nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova",
                "nova_object.version": "1.0",
                "nova_object.data": {"physnets": [], "tunneled": False},
                "nova_object.changes": ["physnets", "tunneled"]},
            "socket": number if socket is None else socket},
        "nova_object.changes": ["memory_usage", "pinned_cpus", "cpuset", "siblings",
                                "mempages", "memory", "pcpuset", "socket",
                                "network_metadata", "id", "cpu_usage"]}


def numa(*cells: dict[str, Any]) -> str:
    """Return a NUMATopology 1.2."""
    return json.dumps({
        "nova_object.name": "NUMATopology", "nova_object.namespace": "nova",
        "nova_object.version": "1.2", "nova_object.data": {"cells": list(cells)},
        "nova_object.changes": ["cells"]})


#: Two cells of 4 cores and 8 threads: the example of the seed.
SEED_TOPOLOGY = numa(*(
    numa_cell(number, list(range(8 * number, 8 * number + 8)),
              siblings=[[8 * number + 2 * core, 8 * number + 2 * core + 1]
                        for core in range(4)])
    for number in range(2)))

#: As nova wrote it before Liberty.
OLD_TOPOLOGY = json.dumps({"cells": [
    {"cpus": "0-3,^2", "mem": {"total": 512, "used": 0}, "id": 0, "cpu_usage": 0},
    {"cpus": "4,5", "mem": {"total": 256, "used": 0}, "id": 1, "cpu_usage": 0}]})


def pools(**counts: int) -> str:
    """Return a PciDevicePoolList 1.1; VF=200 is a pool of 200 devices of type-VF."""
    return json.dumps({
        "nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {"objects": [
            {"nova_object.name": "PciDevicePool", "nova_object.namespace": "nova",
             "nova_object.version": "1.1",
             "nova_object.data": {
                 "product_id": "154c", "vendor_id": "8086", "numa_node": 0, "count": count,
                 "tags": {"dev_type": f"type-{kind}", "physical_network": "net"}},
             "nova_object.changes": ["vendor_id", "numa_node", "tags", "product_id", "count"]}
            for kind, count in counts.items()]},
        "nova_object.changes": ["objects"]})
