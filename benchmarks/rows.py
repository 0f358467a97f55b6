"""The table of what is measured, and how much faster ours must be."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks import client, databases, datasets, filling, limits, workloads

_READERS = (1, 8)
_WRITERS = (8, 32)
_VARIANTS = 16


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    :ivar workload: makes the workload for the dataset, which may have been scaled.
    :ivar clients: concurrencies to measure.
    :ivar floor: how many times the other's rate ours must reach; None: only shown.
    :ivar peer: the other, by its name in ``servers.PEERS``.
    :ivar alone: measured without the other, which cannot do it.
    :ivar floor_of_most: the same with the most clients; None: as with fewer.
    :ivar p95_ms: a bound for ours.
    :ivar per_second: the lowest rate of ours.
    :ivar exact: ours must do the right thing, however fast.
    """

    name: str
    title: str
    dataset: filling.Dataset
    workload: Callable[[Any], workloads.Workload]
    clients: tuple[int, ...]
    floor: databases.Bound = None
    alone: bool = False
    floor_of_most: databases.Bound = None
    p95_ms: float | None = None
    per_second: float | None = None
    exact: bool = False
    workers: int = 2
    peer: str = "upstream"

    def find_floor(self, clients: int, kind: str) -> float | None:
        """Return the floor with a number of clients on a kind of database."""
        floor = databases.find_bound(self.floor, kind)
        if len(self.clients) > 1 and clients == max(self.clients):
            return databases.find_bound(self.floor_of_most, kind) or floor
        return floor

    @property
    def demanded(self) -> bool:
        """Whether something is asked of it."""
        return bool(self.floor or self.p95_ms or self.per_second or self.exact)


def _amounts(number: int) -> str:
    return f"VCPU:{number % 4 + 1},MEMORY_MB:{256 * (number // 4 + 1)}"


def _candidates(
    query: Callable[[int], str], limit: int | None = None
) -> Callable[[datasets.Dataset], workloads.Workload]:
    return lambda dataset: workloads.Reads(_paths(query, limit))


def _paths(query: Callable[[int], str], limit: int | None) -> list[str]:
    end = f"&limit={limit}" if limit else ""
    return [f"/allocation_candidates?{query(number)}{end}" for number in range(_VARIANTS)]


def simple(number: int) -> str:
    """Return the query of a shape of flat hosts."""
    return f"resources={_amounts(number)},DISK_GB:10"


def candidates_paths(limit: int) -> list[str]:
    """Return questions for candidates on flat hosts."""
    return _paths(simple, limit)


def _filtered(number: int) -> str:
    return (f"resources_C={_amounts(number)}&required_C=HW_CPU_X86_AVX2,!HW_CPU_X86_AVX"
            f"&member_of_C=in:{datasets.zone(0)},{datasets.zone(1)}"
            f"&resources_D=DISK_GB:10&required_D=STORAGE_DISK_SSD&group_policy=none")


def numa(number: int) -> str:
    """Return the query of a shape with two groups of one subtree, of trees."""
    return (f"resources=DISK_GB:10&resources_N={_amounts(number)}&required_N=HW_NUMA_ROOT"
            "&resources_V=SRIOV_NET_VF:1&required_V=CUSTOM_PHYSNET_0"
            "&group_policy=none&same_subtree=_N,_V")


def _gpus(number: int) -> str:
    groups = "&".join(f"resources{group}=PGPU:1" for group in (1, 2, 3, 4))
    return f"resources={_amounts(number)}&{groups}&group_policy=isolate"


def _hosts(dataset: datasets.Dataset) -> Sequence[str]:
    numbers = list(range(dataset.hosts))
    random.Random(5).shuffle(numbers)
    return [dataset.host(number) for number in numbers]


def _spread(projects: int) -> Callable[[datasets.Dataset], workloads.Workload]:
    return lambda dataset: workloads.Claims(functools.partial(_hosts, dataset), projects)


def guarded(dataset: limits.Dataset) -> workloads.Workload:
    """Return claims, spread over the hosts, of projects at every level of the trees."""
    return workloads.Claims(functools.partial(_hosts, dataset.empty), _in_trees)


def _in_trees(target: client.Target) -> Sequence[str]:
    """Return all projects; those that follow each other are of any tree and level."""
    known = limits.ids(target.at(None)).projects
    names = sorted(known)
    random.Random(5).shuffle(names)
    return [known[name] for name in names]


def _each(path: str) -> Callable[[datasets.Dataset], workloads.Workload]:
    """Ask ``path`` of some hosts."""
    return lambda dataset: workloads.Reads([path.format(host) for host in _hosts(dataset)[:200]])


def with_allocations(dataset: datasets.Dataset) -> dict[str, workloads.Workload]:
    """Return what is asked of flat hosts while something is allocated, by name.

    Their answers do not become longer with the allocations.
    """
    hosts = functools.partial(_hosts, dataset)
    return {
        "candidates": _candidates(simple, 50)(dataset),
        "candidates_all": _candidates(simple)(dataset),
        "candidates_groups": _candidates(_filtered, 1000)(dataset),
        "providers": workloads.Reads(["/resource_providers"]),
        "provider": _each("/resource_providers/{}")(dataset),
        "inventories": _each("/resource_providers/{}/inventories")(dataset),
        "traits": _each("/resource_providers/{}/traits")(dataset),
        "claims": workloads.Claims(hosts),
        "claims_of_many_projects": workloads.Claims(hosts, 50),
        "claims_on_one_host": workloads.Claims(None),
        "claims_of_ten": workloads.ManyClaims(hosts),
        "gangs": workloads.Gangs(),
        "loop": workloads.ScheduleLoop(candidates_paths(50)),
        "project_usages": workloads.Usages(datasets.BIG_PROJECT),
        "provider_usages": _each("/resource_providers/{}/usages")(dataset),
        "consumers": workloads.Reads([
            f"/capacity/v1/consumers?limit=100&project_id=project-{number}"
            for number in range(datasets.SMALL_PROJECTS)]),
        "room": workloads.Reads(["/capacity/v1/room"]),
        "fits": workloads.Reads([f"/capacity/v1/room/fits?resources={_amounts(number)}"
                                 for number in range(_VARIANTS)]),
    }


FLAT_1K, FLAT_10K, FLAT_100K = (
    datasets.Dataset("flat", hosts) for hosts in (1000, 10_000, 100_000))
_HELD = {
    "10k": dataclasses.replace(FLAT_1K, allocations=10_000),
    "100k": dataclasses.replace(FLAT_1K, allocations=100_000),
    "1m": dataclasses.replace(FLAT_1K, allocations=1_000_000),
}
_FULL = {full: dataclasses.replace(FLAT_10K, percent_full=full) for full in (10, 90)}


def _usages() -> Iterator[Row]:
    for size, dataset in _HELD.items():
        for project, whose in ((datasets.BIG_PROJECT, "half of"), ("project-0", "1 % of")):
            floor = 50 if size != "10k" and project == datasets.BIG_PROJECT else None
            yield Row(
                f"usages-{size}-{'half' if floor or 'big' in project else 'small'}",
                f"GET /usages of a project that holds {whose} {dataset.allocations:,} allocations",
                dataset, lambda dataset, project=project: workloads.Usages(project),  # type: ignore[misc]
                _READERS, floor)


LIMITS_10K = limits.Dataset("flat", 500)


def _of_projects(ids: limits.Ids) -> Sequence[str]:
    """Ask for the limits of some projects."""
    names = sorted(ids.projects)
    random.Random(5).shuffle(names)
    return [f"project_id={ids.projects[name]}" for name in names[:100]]


def _of_the_service(ids: limits.Ids) -> Sequence[str]:
    """Ask for all there is."""
    return [f"service_id={ids.service}"]


#: Rows of one dataset stand together, those that read first: what claims leave behind
#: (raised generations) is not the same on both sides.
ROWS: tuple[Row, ...] = (
    Row("candidates-1k", "candidates, 1,000 hosts, limit 1000",
        FLAT_1K, _candidates(simple, 1000), _READERS, 50),
    Row("claims-spread", "PUT /allocations, spread, one project",
        FLAT_1K, _spread(1), _WRITERS, 7, floor_of_most={"postgresql": 20, "mysql": 12}),
    Row("claims-projects", "PUT /allocations, spread, 50 projects",
        FLAT_1K, _spread(50), _WRITERS, 7, floor_of_most={"postgresql": 20, "mysql": 12}),
    Row("claims-hot", "PUT /allocations, one hot provider",
        FLAT_1K, lambda dataset: workloads.Claims(None), _WRITERS, 12,
        floor_of_most={"postgresql": 35, "mysql": 24}),
    Row("claims-tight", "240 claims at once for room for 60",
        FLAT_1K, lambda dataset: workloads.Tight(), (32,), exact=True),
    Row("claims-ten", "POST /allocations, 10 consumers",
        FLAT_1K, lambda dataset: workloads.ManyClaims(functools.partial(_hosts, dataset)),
        _WRITERS, 14),
    Row("candidates-10k", "candidates, 10,000 hosts, limit 1000",
        FLAT_10K, _candidates(simple, 1000), _READERS, 300),
    Row("candidates-10k-50", "candidates, 10,000 hosts, limit 50",
        FLAT_10K, _candidates(simple, 50), _READERS, 800),
    Row("candidates-10k-all", "candidates, 10,000 hosts, no limit",
        FLAT_10K, _candidates(simple), _READERS, 80),
    Row("candidates-10k-groups", "candidates, 10,000 hosts, traits, member_of, two groups",
        FLAT_10K, _candidates(_filtered, 1000), _READERS, 150),
    Row("list-10k", "GET /resource_providers, all 10,000",
        FLAT_10K, lambda dataset: workloads.Reads(["/resource_providers"]), _READERS, 15),
    Row("provider", "GET one provider",
        FLAT_10K, _each("/resource_providers/{}"), _READERS, 4),
    Row("inventories", "GET the inventories of one provider",
        FLAT_10K, _each("/resource_providers/{}/inventories"), _READERS, 4),
    Row("traits", "GET the traits of one provider",
        FLAT_10K, _each("/resource_providers/{}/traits"), _READERS, 4),
    Row("loop", "schedule loop: candidates limit 50, claim, delete, 10,000 hosts",
        FLAT_10K, lambda dataset: workloads.ScheduleLoop(candidates_paths(50)), (8,), 80),
    Row("gangs-10k", "claims of 16 members, found and spread over 10,000 hosts",
        FLAT_10K, lambda dataset: workloads.Gangs(), (1,), alone=True, p95_ms=50),
    # 1,000 members.
    Row("gangs-10k-rate", "claims of 16 members of 8 clients, found among 10,000 hosts",
        FLAT_10K, lambda dataset: workloads.Gangs(), (8,), alone=True, per_second=62.5),
    Row("candidates-10k-full-10", "candidates, 10,000 hosts 10 % full, limit 1000",
        _FULL[10], _candidates(simple, 1000), _READERS),
    Row("candidates-10k-full-90", "candidates, 10,000 hosts 90 % full, limit 1000",
        _FULL[90], _candidates(simple, 1000), _READERS),
    Row("candidates-trees", "candidates, 1,000 trees of 7, NUMA and VF groups, limit 1000",
        datasets.Dataset("tree", 1000), _candidates(numa, 1000), _READERS, 60),
    Row("candidates-pool", "candidates, 1,000 hosts that share a storage pool, limit 1000",
        datasets.Dataset("pool", 1000), _candidates(simple, 1000), _READERS),
    Row("candidates-gpus", "candidates, 100 hosts x 8 equal GPUs, 4 groups of one, limit 1000",
        datasets.Dataset("devices", 100), _candidates(_gpus, 1000), _READERS, 800),
    Row("candidates-gpus-1k", "candidates, 1,000 hosts x 8 equal GPUs, 4 groups, limit 1000",
        datasets.Dataset("devices", 1000), _candidates(_gpus, 1000), _READERS, alone=True),
    *_usages(),
    Row("candidates-100k", "candidates, 100,000 hosts, limit 1000, one worker",
        FLAT_100K, _candidates(simple, 1000), (1,), alone=True, p95_ms=30, workers=1),
    Row("limits-project", "GET /v3/limits of a project: 20 of 10,000",
        LIMITS_10K, lambda dataset: workloads.Limits(_of_projects), _READERS, 30, peer="keystone"),
    Row("limits-project-new", "GET /v3/limits of a project, no question asked twice",
        LIMITS_10K, lambda dataset: workloads.NewLimits(_of_projects), _READERS, peer="keystone"),
    Row("limits-304", "GET /v3/limits of a project with If-None-Match: 304, from Keystone 200",
        LIMITS_10K, lambda dataset: workloads.KnownLimits(_of_projects), _READERS, 60,
        peer="keystone"),
    Row("limits-all", "GET /v3/limits of a service: all 10,000",
        LIMITS_10K, lambda dataset: workloads.Limits(_of_the_service), _READERS, 50,
        peer="keystone"),
)
