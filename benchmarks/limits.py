"""Datasets of limits: a service, a region, registered limits, projects and their limits.

The ids are made by each side, so what is the same on both are names. A dataset is
*flat*, for reading limits (20 in each project, as on a cloud with that many
resources); or a *tree* of projects five levels deep, for deciding on claims: there
every project has a limit on each of 3 resources, and holds something of them; or
*trees* of three levels beside hosts, for claims: there every project has a limit on
each of these resources and on servers, and holds nothing yet.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import client, datasets

#: Of which the projects of a tree hold something.
PROVIDER = datasets.uid("limits", "provider")
DOMAIN = "bench"
SERVICE = "bench"
REGION = "bench"
LEVELS = 5

#: What a tree's projects hold, by the names that limits have for resource classes.
HELD = {f"class:{name}": amount for name, amount in datasets.CLAIM.items()}
_RESOURCES = {
    "flat": tuple(f"resource-{number:02d}" for number in range(20)),
    "tree": tuple(HELD),
    "trees": (*HELD, "servers"),
}
_DEFAULT = 10
#: The limit of every project of a tree: no claim of the bench is refused.
ENOUGH = 1_000_000_000
#: Fewer projects, two below each, do not reach the fifth level.
_FEWEST = 16
#: Of the trees of three levels: below a project that has any below it.
_BELOW = 3
#: The projects of one of them.
TREE = sum(_BELOW**level for level in range(3))


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Projects of one domain, with limits on the resources of one service in one region.

    :ivar shape: "flat", "tree" or "trees".
    :ivar hosts: flat ones, to claim on.
    """

    shape: str
    projects: int
    hosts: int = 0

    @property
    def name(self) -> str:
        """A name for files and databases."""
        hosts = f"_hosts_{self.hosts}" if self.hosts else ""
        return f"limits_{self.shape}_{self.projects}{hosts}"

    @property
    def empty(self) -> Dataset | datasets.Dataset:
        """The dataset that it is built upon: the hosts; without any, itself."""
        return datasets.Dataset("flat", self.hosts) if self.hosts else self

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the registered resources."""
        return _RESOURCES[self.shape]

    def scaled(self, scale: float) -> Dataset:
        """Return the same kind of dataset in another size."""
        if self.shape == "trees":
            trees = max(1, round(self.projects // TREE * scale))
            return Dataset(self.shape, trees * TREE, datasets.Dataset("flat", self.hosts).scaled(
                scale).hosts)
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
        if self.shape == "trees":
            yield from self._levels_of_trees()
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
                value = (7 * number + place) % 100 if self.shape == "flat" else ENOUGH
                yield self.project(number), {
                    "region_id": REGION, "resource_name": resource, "resource_limit": value}

    def _levels_of_trees(self) -> Iterator[list[tuple[str, str | None]]]:
        first = 0  # of a level, in its tree
        for size in (1, _BELOW, _BELOW**2):
            yield [
                (self.project(root + place),
                 self.project(root + (place - 1) // _BELOW) if place else None)
                for root in range(0, self.projects, TREE)
                for place in range(first, first + size)]
            first += size

    def _below(self) -> int:
        """Return how many projects are below each, so that five levels hold all."""
        return next(below for below in itertools.count(2)
                    if sum(below**level for level in range(LEVELS)) >= self.projects)


@dataclasses.dataclass(frozen=True)
class Ids:
    """What a side calls the service and the projects of a dataset.

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
