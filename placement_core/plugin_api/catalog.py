"""Who exists: what a catalog driver answers.

A catalog knows regions, services and endpoints, and the domains and projects
that limits and usage belong to. Domains and projects form trees: a domain is a
root, a project's parent is another project or its domain. Ids of domains and
projects do not collide, so a tree speaks of *nodes*.
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
    """A region; ids are chosen by whoever makes it, 1 to 255 characters."""

    id: str
    parent_region_id: str | None = None
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A service of the cloud: ``type`` is what limits are about (``compute``)."""

    id: str
    type: str
    name: str = ""
    description: str = ""
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service is reached. ``interface`` is public, internal or admin."""

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

    :ivar parent_id: the project above it, or its domain when it is at the top.
    """

    id: str
    name: str
    domain_id: str
    parent_id: str
    description: str = ""
    enabled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A domain or a project, as its place in a tree.

    :ivar parent_id: None for a domain, and for a project nobody knows.
    """

    id: str
    parent_id: str | None
    is_domain: bool = False


class CatalogDriver(abc.ABC):
    """Answers who exists.

    Called from any thread of the server, before or inside the transaction of
    ``ctx``; a driver that asks another service keeps what it learnt for
    as long as its options say. One that cannot answer raises
    ``errors.Unavailable``, and never says that something does not exist
    because nobody could be asked.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar local: what it answers is in the service's own database, so that
        answers inside a transaction stand still until its end.
    """

    api_version = 1
    local = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Make the driver; one that has options reads them here."""

    @abc.abstractmethod
    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""

    @abc.abstractmethod
    def regions(
        self, ctx: Context, *, parent_region_id: str | None = None
    ) -> Sequence[Region]:
        """Return regions: all, or those below one."""

    @abc.abstractmethod
    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""

    @abc.abstractmethod
    def services(
        self, ctx: Context, *, service_type: str | None = None,
        name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and name."""

    @abc.abstractmethod
    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""

    @abc.abstractmethod
    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service in a region."""

    @abc.abstractmethod
    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""

    @abc.abstractmethod
    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return domains."""

    @abc.abstractmethod
    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""

    @abc.abstractmethod
    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return projects."""

    @abc.abstractmethod
    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those above it, the root first.

        A node nobody knows stands alone: it has no parent. A loop, which only a
        damaged catalog has, is cut where it closes.
        """

    @abc.abstractmethod
    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and those below it, parents before children.

        A node nobody knows stands alone.
        """

    @abc.abstractmethod
    def depth(self, ctx: Context) -> int:
        """Return how many levels the deepest tree has; a domain is level 1, 0: no domains."""
