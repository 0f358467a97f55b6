"""The catalog records that limits refer to, read before a limit is written."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.limits import errors
from placement_core.limits.inputs import Key
from placement_core.plugin_api.catalog import CatalogDriver, Node

T = TypeVar("T")


@contextlib.contextmanager
def open_write(
    ctx: Context, catalog: CatalogDriver, read_references: Callable[[], T]
) -> Iterator[tuple[db.Session, T]]:
    """Open a write that locks the revision of limits; yield it with the references.

    Our own catalog is read after the revision is locked: its writers lock it too, so that
    the result stays valid. A remote catalog is read before the transaction, so that no other
    write waits for it.

    :param read_references: reads the catalog; its errors end the write.
    """
    remote = None if catalog.local else [read_references()]
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        yield session, read_references() if remote is None else remote[0]


def check(ctx: Context, catalog: CatalogDriver, keys: Iterable[Key]) -> None:
    """Check that the services and regions of some limits exist.

    :raises errors.UnknownLimitReference: one does not.
    """
    checked_keys = list(keys)
    require(ctx, catalog, [key.service_id for key in checked_keys],
            [key.region_id for key in checked_keys])


def require(
    ctx: Context, catalog: CatalogDriver, services: Iterable[str], regions: Iterable[str | None]
) -> None:
    """Check that services and regions exist; None is no region.

    :raises errors.UnknownLimitReference: one does not.
    """
    for service_id in dict.fromkeys(services):
        if catalog.service(ctx, service_id) is None:
            raise errors.UnknownLimitReference("service", service_id)
    for region_id in dict.fromkeys(regions):
        if region_id is not None and catalog.region(ctx, region_id) is None:
            raise errors.UnknownLimitReference("region", region_id)


def resolve(
    ctx: Context, catalog: CatalogDriver, named: Collection[tuple[str, str]]
) -> dict[str, Node]:
    """Return the nodes that limits are for, by id.

    :param named: ("project" | "domain", id); the id of a "project" may be that of a domain.
    :raises errors.UnknownLimitReference: one does not exist.
    """
    nodes: dict[str, Node] = {}
    for what, id_ in dict.fromkeys(named):
        if id_ in nodes and (what == "project" or nodes[id_].is_domain):
            continue
        project = catalog.project(ctx, id_) if what == "project" else None
        if project is not None:
            nodes[id_] = Node(id_, project.parent_id)
        elif catalog.domain(ctx, id_) is not None:
            nodes[id_] = Node(id_, None, is_domain=True)
        else:
            raise errors.UnknownLimitReference(what, id_)
    return nodes


@dataclasses.dataclass(frozen=True, slots=True)
class Forest:
    """Complete trees of projects.

    :ivar nodes: by id; the parent of each is included, or None.
    """

    nodes: Mapping[str, Node]

    def around(self, node_ids: Iterable[str]) -> dict[str, Node]:
        """Return some nodes and their ancestors, by id."""
        nodes: dict[str, Node] = {}
        for node_id in node_ids:
            node = self.nodes.get(node_id)
            while node is not None and node.id not in nodes:
                nodes[node.id] = node
                node = self.nodes[node.parent_id] if node.parent_id is not None else None
        return nodes


def forest(ctx: Context, catalog: CatalogDriver, node_ids: Iterable[str]) -> Forest:
    """Return the complete trees of nodes, with two catalog queries for each tree."""
    nodes: dict[str, Node] = {}
    for node_id in node_ids:
        if node_id in nodes:
            continue
        root = catalog.lineage(ctx, node_id)[0]
        for node in catalog.subtree(ctx, root.id):
            # A root above which the catalog is damaged has nobody above it here.
            has_parent = node.parent_id in nodes
            nodes[node.id] = node if has_parent else dataclasses.replace(node, parent_id=None)
        # A node that was created or deleted between the two queries is a tree of its own.
        nodes.setdefault(node_id, Node(node_id, None))
    return Forest(nodes)
