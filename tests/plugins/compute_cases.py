"""The contract of compute drivers, for those whose compute service is in memory."""

from __future__ import annotations

from placement_core.testing.compute import ComputeContract
from placement_core.testing.fakes import MemoryCompute


class MemoryContract(ComputeContract):
    """Looks at ``compute``, which ``given`` sets."""

    compute: MemoryCompute

    def boot(
        self, host: str, *, project_id: str, lease: str | None = None, preemptible: bool = False
    ) -> str:
        return self.compute.boot(
            host, project_id=project_id, lease=lease, preemptible=preemptible)

    def servers(self) -> set[str]:
        return set(self.compute.servers)

    def images(self) -> list[str]:
        return [server for _, server in self.compute.images]

    def server_group(self, lease: str) -> None:
        self.compute.groups.add(lease)

    def freepool(self) -> set[str]:
        return self.compute.freepool

    def hosts(self, lease: str) -> set[str]:
        return self.compute.aggregates[lease][2] if lease in self.compute.aggregates else set()

    def size(self, lease: str) -> tuple[int, int, int]:
        return self.compute.flavors[lease].size

    def users(self, lease: str) -> set[str]:
        return self.compute.flavors[lease].projects

    def flavor_class(self, lease: str) -> str | None:
        return self.compute.flavors[lease].resource_class

    def flavor_in_aggregate(self, lease: str) -> bool:
        return self.compute.flavors[lease].in_aggregate

    def slot_project(self, lease: str) -> str | None:
        return self.compute.aggregates[lease][1]
