"""The interface of catalog drivers: regions, services, endpoints, domains and projects.

Limits and usage belong to domains and projects, which form trees: a domain is a root, and the
parent of a project is another project or its domain. No project has the id of a domain, so both
are *nodes* of a tree.
Source: Keystone v3 identity API, as far as clients of limits need it
(spec limits §4).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

from oslo_config import cfg

from placement_core.context import Context


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """A region; its creator chooses the id, 1 to 255 characters."""

    id: str
    parent_region_id: str | None = None
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A service of the cloud; limits belong to services by their ``type``, such as compute."""

    id: str
    type: str
    name: str = ""
    description: str = ""
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of a service. ``interface`` is public, internal or admin."""

    id: str
    service_id: str
    interface: str
    url: str
    region_id: str | None = None
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """The root of a tree of projects."""

    id: str
    name: str
    description: str = ""
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """A project.

    :ivar parent_id: the parent project, or the domain for a project at the top.
    """

    id: str
    name: str
    domain_id: str
    parent_id: str
    description: str = ""
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A domain or a project in a tree.

    :ivar parent_id: None for a domain, and for a project that is not in the catalog.
    """

    id: str
    parent_id: str | None
    is_domain: bool = False


class CatalogDriver(abc.ABC):
    """Reads the catalog.

    Called from any thread, before or inside the transaction of ``ctx``. A driver that asks
    another service caches answers for as long as its options allow. If it cannot ask, it raises
    ``errors.Unavailable``; it never reports that a record does not exist because the other
    service did not answer.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar local: whether the catalog is in the service's own database, so that answers inside a
        transaction do not change until its end.
    """

    api_version = 1
    local = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver registers its own options here.

        :raises errors.ConfigurationError: an option of the driver is not valid.
        """

    @abc.abstractmethod
    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""

    @abc.abstractmethod
    def regions(
        self, ctx: Context, *, parent_region_id: str | None = None
    ) -> Sequence[Region]:
        """Return all regions, or the direct children of one region."""

    @abc.abstractmethod
    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""

    @abc.abstractmethod
    def services(
        self, ctx: Context, *, service_type: str | None = None,
        name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and a name; None matches any."""

    @abc.abstractmethod
    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""

    @abc.abstractmethod
    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service, a region and an interface; None matches any."""

    @abc.abstractmethod
    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""

    @abc.abstractmethod
    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return all domains, or the domain with a name."""

    @abc.abstractmethod
    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""

    @abc.abstractmethod
    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return the projects that match all filters; None matches any.

        :param parent_id: the project or domain that they are directly below.
        """

    @abc.abstractmethod
    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and its ancestors, the root first.

        A node that is not in the catalog has no ancestors. A loop, which only a damaged
        catalog has, is cut where it closes.
        """

    @abc.abstractmethod
    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and its descendants, parents before children.

        A node that is not in the catalog has no descendants.
        """

    @abc.abstractmethod
    def depth(self, ctx: Context) -> int:
        """Return the number of levels of the deepest tree: 1 for a domain alone, 0 for none."""
