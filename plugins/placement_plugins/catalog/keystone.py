"""The catalog driver ``keystone``: reads the catalog of a remote Keystone."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from oslo_config import cfg

from placement_core.context import Context
from placement_core.plugin_api.catalog import (
    CatalogDriver,
    Domain,
    Endpoint,
    Node,
    Project,
    Region,
    Service,
)
from placement_plugins import keystone, keystone_cache

T = TypeVar("T")

_GROUP = "catalog"
_OPTIONS = keystone.freshness_options("the catalog (services, regions, endpoints, projects)")

_LONGEST_PROJECT_NAME = 64

# The parameters ..._as_list leave out projects in which the calling user has no role.
_WITH_PARENTS = {"parents_as_ids": "1"}
_WITH_SUBTREE = {"subtree_as_ids": "1"}


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the driver's options for oslo-config-generator."""
    return [(_GROUP, list(_OPTIONS))]


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """A node with its ancestors.

    :ivar project: None for a domain.
    :ivar lineage: the node and its ancestors, the root first.
    """

    project: Project | None
    lineage: tuple[Node, ...]


class KeystoneCatalog(CatalogDriver):
    """Reads from a remote Keystone, with a cache.

    Each record is read with a request of its own, so that a new one is found although cached
    lists lack it. Lists of regions, services, endpoints and domains are fetched whole and
    filtered here. A project and its lineage are read with one request, and so are all projects
    below a node.
    """

    api_version = 1

    def __init__(
        self, conf: cfg.ConfigOpts, *, clock: keystone_cache.Clock = time.monotonic
    ) -> None:
        conf.register_opts(_OPTIONS, group=_GROUP)
        self._keystone = keystone.Client(
            conf, needed_by="[catalog] driver = keystone", freshness=_GROUP, clock=clock)

    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""
        if "/" in id_ or not id_.strip("."):
            # The path of a URL cannot contain it: operators choose the ids of regions freely.
            return next((region for region in self.regions(ctx) if region.id == id_), None)
        return self._keystone.one("regions", id_, _parse_region)

    def regions(self, ctx: Context, *, parent_region_id: str | None = None) -> Sequence[Region]:
        """Return regions: all, or those below one."""
        return _filter(
            self._keystone.all("regions", _parse_region), parent_region_id=parent_region_id)

    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""
        return self._get_one("services", id_, _parse_service)

    def services(
        self, ctx: Context, *, service_type: str | None = None, name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and name."""
        return _filter(
            self._keystone.all("services", _parse_service), type=service_type, name=name)

    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""
        return self._get_one("endpoints", id_, _parse_endpoint)

    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service in a region."""
        return _filter(
            self._keystone.all("endpoints", _parse_endpoint),
            service_id=service_id, region_id=region_id, interface=interface)

    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""
        return self._get_one("domains", id_, _parse_domain)

    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return domains."""
        return _filter(self._keystone.all("domains", _parse_domain), name=name)

    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""
        place = self._place(id_)
        return place.project if place is not None else None

    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return projects."""
        if not _may_exist(name, domain_id, parent_id):
            return ()
        query = {"name": name, "domain_id": domain_id}
        if parent_id is not None:
            # Keystone accepts only uuids as parent_id; a node with another id is a domain.
            key = "parent_id" if keystone.is_uuid(parent_id) else "domain_id"
            if query.get(key) not in (None, parent_id):
                return ()  # The parent is another domain.
            query[key] = parent_id
        # Whether Keystone's comparison is case-sensitive depends on its database.
        return _filter(
            self._keystone.all("projects", _parse_project, **query),
            name=name, domain_id=domain_id, parent_id=parent_id)

    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those above it, the root first."""
        place = self._place(node_id)
        return place.lineage if place is not None else (Node(node_id, None),)

    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those below it, parents before children."""
        nodes = self._get_one("projects", node_id, _parse_subtree, _WITH_SUBTREE)
        return nodes if nodes is not None else (Node(node_id, None),)

    def depth(self, ctx: Context) -> int:
        """Return the number of levels of the deepest tree: 1 for a domain alone, 0 for none."""
        if not self._keystone.all("domains", _parse_domain):
            return 0
        parents = {project.id: project.parent_id
                   for project in self._keystone.all("projects", _parse_project)}
        levels: dict[str, int] = {}
        for project_id in parents:
            chain = []
            node_id = project_id
            while node_id in parents and node_id not in levels and node_id not in chain:
                chain.append(node_id)
                node_id = parents[node_id]
            level = levels.get(node_id, 1)
            for chained_id in reversed(chain):
                level += 1
                levels[chained_id] = level
        return max(levels.values(), default=1)

    def _place(self, node_id: str) -> _Place | None:
        # To Keystone a domain is a project, too.
        return self._get_one("projects", node_id, _place, _WITH_PARENTS)

    def _get_one(
        self, collection: str, id_: str, make: keystone.Make[T],
        parameters: Mapping[str, str] | None = None,
    ) -> T | None:
        if not keystone.may_be_id(id_):
            return None
        return self._keystone.one(collection, id_, make, parameters)


def _filter(records: Iterable[Any], **filters: str | None) -> tuple[Any, ...]:
    """Return the records that have each of these values that is not None."""
    values = {name: value for name, value in filters.items() if value is not None}
    return tuple(
        record for record in records
        if all(getattr(record, name) == value for name, value in values.items()))


def _may_exist(name: str | None, *ids: str | None) -> bool:
    """Return whether a project may have this name, in a node with one of these ids.

    Keystone answers 400 for others.
    """
    if name is not None and not (name.strip() and len(name) <= _LONGEST_PROJECT_NAME):
        return False
    return all(id_ is None or keystone.may_be_id(id_) for id_ in ids)


def _parse_region(row: Mapping[str, Any]) -> Region:
    return Region(row["id"], row["parent_region_id"] or None, row["description"] or "")


def _parse_service(row: Mapping[str, Any]) -> Service:
    return Service(
        row["id"], row["type"], row.get("name") or "", row.get("description") or "",
        row["enabled"])


def _parse_endpoint(row: Mapping[str, Any]) -> Endpoint:
    return Endpoint(
        row["id"], row["service_id"], row["interface"], row["url"], row["region_id"] or None,
        row["enabled"])


def _parse_domain(row: Mapping[str, Any]) -> Domain:
    return Domain(row["id"], row["name"], row.get("description") or "", row["enabled"])


def _parse_project(row: Mapping[str, Any]) -> Project:
    return Project(
        row["id"], row["name"], row["domain_id"], row["parent_id"], row.get("description") or "",
        row["enabled"])


def _place(row: Mapping[str, Any]) -> _Place:
    if row["is_domain"]:
        return _Place(None, (Node(row["id"], None, is_domain=True),))
    upwards = [row["id"]]
    above = row["parents"]
    while above:
        ((parent_id, above),) = above.items()
        upwards.append(parent_id)
    parents = [*upwards[1:], None]
    lineage = tuple(
        Node(id_, parent_id, is_domain=parent_id is None)
        for id_, parent_id in zip(upwards, parents, strict=True))
    return _Place(_parse_project(row), lineage[::-1])


def _parse_subtree(row: Mapping[str, Any]) -> tuple[Node, ...]:
    nodes = [Node(row["id"], None if row["is_domain"] else row["parent_id"], row["is_domain"])]
    levels = [(row["id"], row["subtree"])]
    for parent_id, children in levels:
        for id_, grandchildren in (children or {}).items():
            nodes.append(Node(id_, parent_id))
            levels.append((id_, grandchildren))
    return tuple(nodes)
