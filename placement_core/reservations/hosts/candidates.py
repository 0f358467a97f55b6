"""Finds the resource provider or compute node that is to be registered as a host."""

from __future__ import annotations

import dataclasses
import uuid as uuids
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.compute import errors as compute_errors
from placement_core.compute.nodes import ComputeNodes
from placement_core.compute.records import ComputeNode, State
from placement_core.context import Context
from placement_core.db import texts
from placement_core.placement import tables as placement_tables
from placement_core.reservations.errors import AmbiguousHost, InvalidLease, UnknownHost

_LONGEST_NAME = 255

_providers = placement_tables.resource_providers

_CALLED = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.parent_provider_id,
).where(sa.or_(_providers.c.uuid == sa.bindparam("name_or_uuid"),
               _providers.c.name == sa.bindparam("name_or_uuid")))


@dataclasses.dataclass(frozen=True, slots=True)
class HostCandidate:
    """A resource provider that is to be registered as a host.

    :ivar fields: columns of the host, from its compute node; empty if it has none.
    """

    provider_uuid: str
    name: str
    fields: Mapping[str, Any]


class HostCandidates:
    """Finds candidates by name or uuid.

    :param nodes: the compute nodes of the cells, whose records describe hosts.
    """

    def __init__(self, nodes: ComputeNodes) -> None:
        self._nodes = nodes

    def find(self, ctx: Context, name: str) -> HostCandidate:
        """Return the one provider that has this name or uuid, or whose compute node has it.

        :raises UnknownHost, AmbiguousHost: none has that name, or several have.
        :raises InvalidLease: it is nested, or a node without inventories.
        :raises errors.Unavailable: a cell that may have the node does not answer.
        """
        if not 0 < len(name) <= _LONGEST_NAME or not texts.is_storable(name):
            raise UnknownHost(name)
        providers = _find_providers(ctx, name)
        listing = self._nodes.list_(ctx, named=name)
        nodes = _filter_nodes(listing.nodes, name)
        for node in nodes:
            _require_inventories(node, name)
        by_uuid = _index_by_uuid(providers, nodes)
        if not by_uuid and listing.missing:
            raise compute_errors.CellsMissing([cell.name for cell in listing.missing])
        uuid, compute_node = _require_one(by_uuid, name)
        _require_roots(providers, name)
        compute_node = compute_node or self._find_node(ctx, uuid)
        if compute_node is None:
            return HostCandidate(uuid, providers[0].name or uuid, {})
        _require_inventories(compute_node, name)
        return self._make_candidate(ctx, uuid, compute_node)

    def _find_node(self, ctx: Context, uuid: str) -> ComputeNode | None:
        try:
            return self._nodes.get(ctx, uuid)
        except compute_errors.ComputeNodeNotFound:
            return None

    def _make_candidate(self, ctx: Context, uuid: str, node: ComputeNode) -> HostCandidate:
        return HostCandidate(uuid, node.hypervisor_hostname or node.host or uuid, {
            "hypervisor_type": node.hypervisor_type,
            "hypervisor_version": node.hypervisor_version,
            "cpu_info": self._nodes.read_cpu_info(ctx, node),
            "service_name": node.host,
        })


def _filter_nodes(nodes: Sequence[ComputeNode], name: str) -> list[ComputeNode]:
    """Return the nodes with that hypervisor hostname, or else those with that host."""
    return ([node for node in nodes if node.hypervisor_hostname == name]
            or [node for node in nodes if node.host == name])


def _index_by_uuid(
    providers: Sequence[sa.Row[Any]], nodes: Sequence[ComputeNode]
) -> dict[str, ComputeNode | None]:
    """Return {provider uuid: its compute node, or None} of all that have the name."""
    by_uuid: dict[str, ComputeNode | None] = {row.uuid: None for row in providers}
    return by_uuid | {node.uuid: node for node in nodes if node.uuid is not None}


def _require_one(
    by_uuid: Mapping[str, ComputeNode | None], name: str
) -> tuple[str, ComputeNode | None]:
    if len(by_uuid) > 1:
        raise AmbiguousHost(name, sorted(by_uuid))
    if not by_uuid:
        raise UnknownHost(name)
    [(uuid, node)] = by_uuid.items()
    return uuid, node


def _require_roots(providers: Sequence[sa.Row[Any]], name: str) -> None:
    if any(row.parent_provider_id is not None for row in providers):
        raise InvalidLease(
            f"{name} is nested in another resource provider: a host is the root of "
            "its tree.", "name")


def _require_inventories(node: ComputeNode, name: str) -> None:
    if node.state is not State.MIGRATED:
        raise InvalidLease(
            f"The compute node {name} has no inventories yet: {node.reason}.", "name")


@db.retry_writes
def _find_providers(ctx: Context, name_or_uuid: str) -> list[sa.Row[Any]]:
    """Return the providers with that name or uuid."""
    name_or_uuid = _canonical(name_or_uuid)
    with db.read_once(ctx) as session:
        # An adopted MySQL table compares without regard to case.
        return [row for row in session.execute(_CALLED, {"name_or_uuid": name_or_uuid})
                if name_or_uuid in (row.name, row.uuid)]


def _canonical(name: str) -> str:
    """Return a uuid in the spelling of ``resource_providers.uuid``; other texts unchanged."""
    try:
        return str(uuids.UUID(name))
    except ValueError:
        return name
