"""Records that the functions of this package take and return."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence

from placement_core.cells.records import Cell
from placement_core.placement.records import InventoryValues


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of a cell's ``compute_nodes``, with the columns that are used; names are nova's.

    The three amounts and ratios are what nova's compute service reported; if the node is
    migrated, its inventories count instead. Ratios of None or 0.0 are not set.
    """

    id: int
    uuid: str | None
    host: str | None
    hypervisor_hostname: str | None
    hypervisor_type: str | None
    hypervisor_version: int | None
    vcpus: int
    memory_mb: int
    local_gb: int
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    disk_allocation_ratio: float | None
    local_gb_used: int
    disk_available_least: int | None
    pci_stats: str | None
    numa_topology: str | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None

    @property
    def title(self) -> str:
        """The name of the node in messages."""
        return self.hypervisor_hostname or self.host or f"number {self.id}"


class State(enum.Enum):
    """Where a node's capacity is stored."""

    #: In the inventories of a resource provider.
    MIGRATED = "migrated"
    #: Still in the cell's table: it was not its turn yet, or a database did not answer.
    PENDING = "pending"
    #: Still in the cell's table: some service of nova is too old, or a cell is missing.
    GATE_CLOSED = "gate_closed"
    #: Still in the cell's table: it cannot be migrated as it is.
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A compute node, wherever its capacity is stored; names of fields are nova's.

    :ivar inventories: {resource class: values} of the provider; if the node is not migrated,
        what they would be.
    :ivar reason: why the node is not migrated; empty if it is.
    :ivar remarks: what in its record could not be parsed, in sentences.
    """

    cell: Cell
    id: int
    uuid: str | None
    host: str | None
    hypervisor_hostname: str | None
    hypervisor_type: str | None
    hypervisor_version: int | None
    vcpus: int
    memory_mb: int
    local_gb: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    inventories: Mapping[str, InventoryValues]
    state: State
    reason: str = ""
    remarks: Sequence[str] = ()
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
