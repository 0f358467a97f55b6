"""The catalog in the service's own database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from placement_core import db
from placement_core.catalog import domains, endpoints, errors, projects, regions, services, tree
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

T = TypeVar("T")


class LocalCatalog(CatalogDriver):
    """Reads the catalog with one statement for each call, in the transaction of ``ctx`` if any."""

    api_version = 1
    local = True

    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""
        return _find(regions.get, ctx, id_)

    def regions(
        self, ctx: Context, *, parent_region_id: str | None = None
    ) -> Sequence[Region]:
        """Return regions: all, or those below one."""
        return regions.list_(ctx, parent_region_id=parent_region_id)

    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""
        return _find(services.get, ctx, id_)

    def services(
        self, ctx: Context, *, service_type: str | None = None,
        name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and name."""
        return services.list_(ctx, service_type=service_type, name=name)

    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""
        return _find(endpoints.get, ctx, id_)

    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service in a region."""
        return endpoints.list_(
            ctx, service_id=service_id, region_id=region_id, interface=interface)

    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""
        return _find(domains.get, ctx, id_)

    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return domains."""
        return domains.list_(ctx, name=name)

    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""
        return _find(projects.get, ctx, id_)

    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return projects."""
        return projects.list_(ctx, name=name, domain_id=domain_id, parent_id=parent_id)

    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those above it, the root first."""
        return _read(ctx, tree.lineage, node_id)

    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those below it, parents before children."""
        return _read(ctx, tree.subtree, node_id)

    def depth(self, ctx: Context) -> int:
        """Return the number of levels of the deepest tree."""
        return _read(ctx, tree.depth)


def _find(get: Callable[[Context, str], T], ctx: Context, id_: str) -> T | None:
    try:
        return get(ctx, id_)
    except errors.NotInCatalog:
        return None


@db.retry_writes
def _read(ctx: Context, query: Callable[..., T], *node_ids: str) -> T:
    with db.read_once(ctx) as session:
        return query(session, *node_ids)
