"""The compute driver ``none``, for clouds without a compute service."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.plugin_api.compute import ComputeDriver


class NoCompute(ComputeDriver):
    """Does nothing, and reports no ids, no servers and no objects."""

    api_version = 2
    acts = False

    def add_to_freepool(self, host: str) -> None:
        """Do nothing."""

    def remove_from_freepool(self, host: str) -> None:
        """Do nothing."""

    def freepool_hosts(self) -> frozenset[str]:
        """Find no hosts."""
        return frozenset()

    def put_flavor(
        self, reservation_id: str, *, vcpus: int, memory_mb: int, disk_gb: int,
        in_aggregate: bool, resource_class: str | None = None,
    ) -> str | None:
        """Make no flavor."""
        return None

    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Do nothing."""

    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Do nothing."""

    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Find no servers."""
        return 0

    def remove_flavor(self, reservation_id: str) -> None:
        """Do nothing."""

    def remove_server_group(self, reservation_id: str) -> None:
        """Do nothing."""

    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Make no aggregate."""
        return None

    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Make no aggregate."""
        return None

    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Do nothing."""
        return None

    def remove_host(self, reservation_id: str, host: str) -> None:
        """Do nothing."""

    def remove_aggregate(self, reservation_id: str) -> None:
        """Do nothing."""

    def delete_preemptible_servers(self, host: str) -> int:
        """Find no servers."""
        return 0

    def snapshot_host_servers(
        self, reservation_id: str, host: str, due_at: str | None = None
    ) -> int:
        """Find no servers."""
        return 0

    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Find no servers."""
        return 0

    def made(self) -> Mapping[str, frozenset[str]]:
        """Find nothing."""
        return {}
