"""Stand-ins for what is outside: drivers that answer from memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placement_core import errors
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


class MemoryCatalog(CatalogDriver):
    """A catalog that is what it was given; like a remote one, it is not ours.

    :ivar asked: the names of the methods that were called, in order.
    :ivar down: whether it refuses to answer.
    """

    api_version = 1

    def __init__(
        self, *, regions: Iterable[Region] = (), services: Iterable[Service] = (),
        endpoints: Iterable[Endpoint] = (), domains: Iterable[Domain] = (),
        projects: Iterable[Project] = (),
    ) -> None:
        self.asked: list[str] = []
        self.down = False
        self._regions = {each.id: each for each in regions}
        self._services = {each.id: each for each in services}
        self._endpoints = {each.id: each for each in endpoints}
        self._domains = {each.id: each for each in domains}
        self._projects = {each.id: each for each in projects}

    def forget(self, id_: str) -> None:
        """Let a region, service, endpoint, domain or project be gone."""
        for known in (self._regions, self._services, self._endpoints, self._domains,
                      self._projects):
            known.pop(id_, None)

    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""
        self._answer("region")
        return self._regions.get(id_)

    def regions(
        self, ctx: Context, *, parent_region_id: str | None = None
    ) -> Sequence[Region]:
        """Return regions: all, or those below one."""
        self._answer("regions")
        return [each for each in self._regions.values()
                if parent_region_id in (None, each.parent_region_id)]

    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""
        self._answer("service")
        return self._services.get(id_)

    def services(
        self, ctx: Context, *, service_type: str | None = None,
        name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and name."""
        self._answer("services")
        return [each for each in self._services.values()
                if service_type in (None, each.type) and name in (None, each.name)]

    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""
        self._answer("endpoint")
        return self._endpoints.get(id_)

    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service in a region."""
        self._answer("endpoints")
        return [each for each in self._endpoints.values()
                if service_id in (None, each.service_id)
                and region_id in (None, each.region_id)
                and interface in (None, each.interface)]

    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""
        self._answer("domain")
        return self._domains.get(id_)

    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return domains."""
        self._answer("domains")
        return [each for each in self._domains.values() if name in (None, each.name)]

    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""
        self._answer("project")
        return self._projects.get(id_)

    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return projects."""
        self._answer("projects")
        return [each for each in self._projects.values()
                if name in (None, each.name) and domain_id in (None, each.domain_id)
                and parent_id in (None, each.parent_id)]

    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those above it, the root first."""
        self._answer("lineage")
        return tuple(self._node(each) for each in reversed(self._upwards(node_id)))

    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those below it, parents before children."""
        self._answer("subtree")
        found, level = [node_id], [node_id]
        while level:
            level = [each.id for each in self._projects.values()
                     if each.parent_id in level and each.id not in found]
            found += level
        return tuple(self._node(each) for each in found)

    def depth(self, ctx: Context) -> int:
        """Return how many levels the deepest tree has."""
        self._answer("depth")
        return max((len(self._upwards(each)) for each in (*self._domains, *self._projects)),
                   default=0)

    def _answer(self, method: str) -> None:
        self.asked.append(method)
        if self.down:
            raise errors.Unavailable("The catalog does not answer.")

    def _upwards(self, node_id: str) -> list[str]:
        found = [node_id]
        while found[-1] in self._projects and self._projects[found[-1]].parent_id not in found:
            found.append(self._projects[found[-1]].parent_id)
        return found

    def _node(self, node_id: str) -> Node:
        project = self._projects.get(node_id)
        return Node(node_id, project.parent_id if project is not None else None,
                    is_domain=node_id in self._domains)
