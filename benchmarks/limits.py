"""Worlds of limits: a service, a region, registered limits, projects and their limits.

The ids are made by each side, so what is the same on both are names. A world is
either *flat*, for reading limits (20 in each project, as on a cloud with that many
resources), or a *tree* of projects five levels deep, for deciding on claims: there
every project has a limit on each of 3 resources, and holds something of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import client, worlds

#: Of which the projects of a tree hold something.
PROVIDER = worlds.uid("limits", "provider")
DOMAIN = "bench"
SERVICE = "bench"
REGION = "bench"
LEVELS = 5

#: What a tree's projects hold, by the names that limits have for resource classes.
HELD = {f"class:{name}": amount for name, amount in worlds.CLAIM.items()}
_FLAT_RESOURCES = tuple(f"resource-{number:02d}" for number in range(20))
_DEFAULT = 10
#: The limit of every project of a tree: no claim of the bench is refused.
ENOUGH = 1_000_000_000
#: Fewer projects, two below each, do not reach the fifth level.
_FEWEST = 16


@dataclasses.dataclass(frozen=True)
class World:
    """Projects of one domain, with limits on the resources of one service in one region.

    :ivar shape: "flat" or "tree".
    :cvar hosts: limits need none.
    """

    shape: str
    projects: int
    hosts = 0

    @property
    def name(self) -> str:
        """A name for files and databases."""
        return f"limits_{self.shape}_{self.projects}"

    @property
    def empty(self) -> World:
        """The world itself: it is not built upon another."""
        return self

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the registered resources."""
        return tuple(HELD) if self.shape == "tree" else _FLAT_RESOURCES

    def scaled(self, scale: float) -> World:
        """Return the same kind of world in another size."""
        return dataclasses.replace(self, projects=max(_FEWEST, round(self.projects * scale)))

    @property
    def lowest(self) -> str:
        """The name of a project with as many above it as any."""
        return self.project(self.projects - 1)

    def project(self, number: int) -> str:
        """Return a project's name; of a tree, the greater the number, the lower."""
        return f"{self.shape}-{number:05d}"

    def levels(self) -> Iterator[list[tuple[str, str | None]]]:
        """Yield projects as (name, name of the project above), level by level."""
        if self.shape == "flat":
            yield [(self.project(number), None) for number in range(self.projects)]
            return
        below = self._below()
        numbers = range(1)
        while numbers:
            yield [(self.project(number), self.project((number - 1) // below) if number else None)
                   for number in numbers]
            numbers = range(numbers.stop, min(numbers.stop + len(numbers) * below, self.projects))

    def registered(self) -> Iterator[dict[str, Any]]:
        """Yield what is registered: resource names and their defaults."""
        for resource in self.resources:
            yield {"region_id": REGION, "resource_name": resource, "default_limit": _DEFAULT}

    def limits(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is set, as (name of the project, limit)."""
        for number in range(self.projects):
            for place, resource in enumerate(self.resources):
                value = ENOUGH if self.shape == "tree" else (7 * number + place) % 100
                yield self.project(number), {
                    "region_id": REGION, "resource_name": resource, "resource_limit": value}

    def _below(self) -> int:
        """Return how many projects are below each, so that five levels hold all."""
        return next(below for below in itertools.count(2)
                    if sum(below**level for level in range(LEVELS)) >= self.projects)


@dataclasses.dataclass(frozen=True)
class Ids:
    """What a side calls the service and the projects of a world.

    :ivar projects: {name: id}.
    """

    service: str
    projects: Mapping[str, str]

    @property
    def names(self) -> dict[str, str]:
        """{id: what both sides can agree on}."""
        return {self.service: SERVICE, **{id_: name for name, id_ in self.projects.items()}}


def ids(target: client.Target) -> Ids:
    """Ask a side what it calls things."""
    service = target.must("GET", f"/v3/services?type={SERVICE}")["services"][0]["id"]
    domain = target.must("GET", f"/v3/domains?name={DOMAIN}")["domains"][0]["id"]
    return Ids(service, projects(target, domain))


def projects(target: client.Target, domain: str) -> dict[str, str]:
    """Ask a side for the projects of a domain: {name: id}."""
    found = target.must("GET", f"/v3/projects?domain_id={domain}")["projects"]
    return {project["name"]: project["id"] for project in found}
