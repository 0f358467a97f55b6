"""Loading a dataset into one side, once; what is measured runs on copies."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa

from benchmarks import client, cloning, databases, datasets, leases, limits, servers
from placement_core.http.leases_api import representations

_Item = TypeVar("_Item")

#: What can be loaded.
Dataset = datasets.Dataset | limits.Dataset | leases.Dataset

#: Two requests that make the same aggregate at once are a race that upstream can
#: lose, so the first hosts, which have every rack and zone, are loaded one by one.
_ALONE = datasets.RACKS
_UNITS_AT_ONCE = 200
_CONSUMERS_IN_A_POST = 100
_ROWS_IN_AN_INSERT = 1000
_LIMITS_IN_A_POST = 100


class Keeper:
    """The databases that hold loaded datasets.

    :ivar said: what to say of how a dataset came in, beside its numbers.
    :ivar keep: whether loaded datasets stay for the next run.
    """

    def __init__(self, server: databases.Server, folder: pathlib.Path, *, keep: bool) -> None:
        """Use the databases of earlier runs.

        :param folder: where notes and logs go.
        """
        self._server = server
        self._folder = folder
        self.keep = keep
        self._note = folder / f"kept-{server.kind}.json"
        self._kept: dict[str, str] = (
            json.loads(self._note.read_text()) if self._note.exists() else {})
        self._copies: set[str] = set()
        self.said: list[str] = []

    def copy(self, side: servers.Side, dataset: Dataset, suffix: str = "") -> str:
        """Return a database of its own with this dataset in it; load the dataset if need be.

        :param suffix: tells copies that are wanted at the same time from each other.
        """
        name = f"bench_{side.name}_run{suffix}"
        self._server.copy(self._loaded(side, dataset), name)
        self._copies.add(name)
        return name

    def _loaded(self, side: servers.Side, dataset: Dataset) -> str:
        name = f"bench_{side.name}_{dataset.name}"
        made_by = _fingerprint(side, dataset)
        if self._kept.get(name) == made_by and self._server.exists(name):
            return name
        self._forget(name)
        origin = _find_origin(dataset)
        if origin is not None:
            # Its tables are there already.
            self._server.copy(self._loaded(side, origin), name)
        started = time.monotonic()
        clients = side.loading_clients(self._server.kind)
        folder = self._folder / f"{side.name}-loading"
        if origin is None:
            self._server.make(name)
            side.sync(name, self._server, folder)
        if isinstance(dataset, limits.Dataset):
            way = self._over_http(
                side, name, folder, lambda target: load_limits(target, dataset, clients))
        elif isinstance(dataset, leases.Dataset):
            way = self._over_http(
                side, name, folder, lambda target: enter_freepool(target, dataset, clients))
            leases.insert(self._server, name, dataset.leases())
            leases.write_texts(self._server, name)
            way += " and by SQL"
        elif origin is None:
            way = self._over_http(
                side, name, folder, lambda target: load(target, dataset, clients))
        elif dataset == dataset.empty:
            cloning.clone_hosts(self._server, name, dataset)
            way = "by SQL"
        elif isinstance(side, servers.Upstream):
            insert(self._server, name, dataset)
            way = "by SQL"
        else:
            way = self._over_http(side, name, folder, lambda target: claim(target, dataset))
        self._server.settle(name)
        self.said.append(f"{dataset.name} was loaded into {side.name} {way} in "
                         f"{time.monotonic() - started:.0f} s")
        self._kept[name] = made_by
        self._write()
        return name

    def _over_http(
        self, side: servers.Side, name: str, folder: pathlib.Path,
        fill: Callable[[client.Target], None],
    ) -> str:
        served = side.serve(name, self._server, folder)
        try:
            fill(served.target)
        finally:
            served.stop()
        return "over HTTP"

    def close(self) -> None:
        """Drop the databases that nobody wants to find again."""
        for name in self._copies:
            self._server.drop(name)
        if not self.keep:
            for name in list(self._kept):
                self._forget(name)

    def _forget(self, name: str) -> None:
        self._server.drop(name)
        if self._kept.pop(name, None):
            self._write()

    def _write(self) -> None:
        self._note.write_text(json.dumps(self._kept, indent=1))


def _find_origin(dataset: Dataset) -> Dataset | None:
    """Return the dataset that another one is made from; None: it is loaded from nothing."""
    if dataset != dataset.empty:
        return dataset.empty
    if isinstance(dataset, datasets.Dataset) and dataset.hosts > datasets.PERIOD:
        return dataclasses.replace(dataset, hosts=datasets.PERIOD)
    return None


def _fingerprint(side: servers.Side, dataset: Dataset) -> str:
    made_in = {limits.Dataset: [limits], leases.Dataset: [leases, representations]}.get(
        type(dataset), [])
    code = b"".join(
        pathlib.Path(module.__file__).read_bytes() for module in [*made_in, datasets, cloning])
    return hashlib.sha256(code + side.fingerprint().encode()).hexdigest()


def load(target: client.Target, dataset: datasets.Dataset, clients: int) -> None:
    """Make the providers of a dataset over HTTP."""
    for name in datasets.CUSTOM_TRAITS:
        target.must("PUT", f"/traits/{name}")
    for name in datasets.CUSTOM_CLASSES:
        target.must("PUT", f"/resource_classes/{name}")
    units = dataset.units()
    progress = Progress(f"providers of {dataset.name}", dataset.hosts)
    _send(target, [list(_making(target, unit)) for unit in itertools.islice(units, _ALONE)], 1)
    progress.add(_ALONE)
    for batch in _batches(units, _UNITS_AT_ONCE):
        _send(target, [list(_making(target, unit)) for unit in batch], clients)
        progress.add(len(batch))
    progress.end()


def load_limits(target: client.Target, dataset: limits.Dataset, clients: int) -> None:
    """Make the projects of a dataset and their limits over HTTP; in a tree, what they hold."""
    identity = target.at(None)
    domain = identity.must(
        "POST", "/v3/domains", {"domain": {"name": limits.DOMAIN}})["domain"]["id"]
    service = identity.must(
        "POST", "/v3/services", {"service": {"type": limits.SERVICE}})["service"]["id"]
    identity.must("POST", "/v3/regions", {"region": {"id": limits.REGION}})
    identity.must("POST", "/v3/registered_limits", {"registered_limits": [
        {**one, "service_id": service} for one in dataset.registered()]})
    progress = Progress(f"projects of {dataset.name}", dataset.projects)
    known: dict[str, str] = {}
    for level in dataset.levels():
        for batch in _batches(level, _UNITS_AT_ONCE):
            _send(identity, [[identity.request("POST", "/v3/projects", {"project": {
                "name": name, "domain_id": domain, "parent_id": known[above] if above else domain,
            }})] for name, above in batch], clients)
            progress.add(len(batch))
        known = limits.projects(identity, domain)
    progress.end()
    _set_limits(identity, dataset, service, known, clients)
    if dataset.shape == "tree":
        _hold(target, known, clients)


def _set_limits(
    target: client.Target, dataset: limits.Dataset, service: str, known: dict[str, str],
    clients: int,
) -> None:
    progress = Progress(f"limits of {dataset.name}", dataset.projects * len(dataset.resources))
    for batch in _batches(dataset.limits(), _LIMITS_IN_A_POST * clients):
        items = [{**limit, "project_id": known[project], "service_id": service}
                 for project, limit in batch]
        _send(target, [[target.request("POST", "/v3/limits", {"limits": part})]
                       for part in _batches(items, _LIMITS_IN_A_POST)], clients)
        progress.add(len(batch))
    progress.end()


def _hold(target: client.Target, known: dict[str, str], clients: int) -> None:
    """Let each project hold something of one vast provider."""
    target.must("POST", "/resource_providers", {"uuid": limits.PROVIDER, "name": "vast"})
    target.must("PUT", f"/resource_providers/{limits.PROVIDER}/inventories", {
        "resource_provider_generation": 0,
        "inventories": {name: {"total": 10**9} for name in datasets.CLAIM}})
    _send(target, [[target.request("POST", "/allocations", {
        datasets.uid("holds", name): allocation(limits.PROVIDER, datasets.CLAIM, known[name])
        for name in part})] for part in _batches(known, _CONSUMERS_IN_A_POST)], clients)


def enter_freepool(target: client.Target, dataset: leases.Dataset, clients: int) -> None:
    """Let the hosts of a dataset into the freepool over HTTP."""
    progress = Progress(f"hosts of {dataset.name}", dataset.hosts)
    for batch in _batches(range(dataset.hosts), _UNITS_AT_ONCE):
        _send(target, [[target.request("POST", "/v1/os-hosts", {"name": leases.host_name(number)})]
                       for number in batch], clients)
        progress.add(len(batch))
    progress.end()


def claim(target: client.Target, dataset: datasets.Dataset) -> None:
    """Make the allocations of a dataset over HTTP, many consumers in one request."""
    claims = list(dataset.claims())
    progress = Progress(f"allocations of {dataset.name}", len(claims))
    for batch in _batches(claims, _CONSUMERS_IN_A_POST * 40):
        posts = [
            [target.request("POST", "/allocations", {
                one.consumer: allocation(one.provider, one.resources, one.project)
                for one in part})]
            for part in _batches(batch, _CONSUMERS_IN_A_POST)
        ]
        _send(target, posts, servers.THREADS)
        progress.add(len(batch))
    progress.end()


def allocation(provider: str, resources: dict[str, int], project: str) -> dict[str, object]:
    """Return the body of a new consumer's allocation on one provider."""
    return {
        "allocations": {provider: {"resources": resources}},
        "project_id": project,
        "user_id": f"{project}-user",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def insert(server: databases.Server, name: str, dataset: datasets.Dataset) -> None:
    """Insert the allocations of a dataset into upstream's tables.

    Over HTTP upstream would take hours for a million.
    """
    with server.connect(name) as connection, connection.begin():
        def names(table: str, column: str) -> dict[str, int]:
            rows = connection.exec_driver_sql(f"SELECT {column}, id FROM {table}")
            return {row[0]: row[1] for row in rows}

        providers = names("resource_providers", "uuid")
        classes = names("resource_classes", "name")
        claims = list(dataset.claims())
        projects = sorted({one.project for one in claims})
        _insert(connection, "projects", "external_id", [f"'{one}'" for one in projects])
        _insert(connection, "users", "external_id", [f"'{one}-user'" for one in projects])
        _insert(connection, "consumer_types", "name", ["'INSTANCE'"])
        kind = names("consumer_types", "name")["INSTANCE"]
        project_ids = names("projects", "external_id")
        user_ids = names("users", "external_id")
        _insert(connection, "consumers",
                "uuid, project_id, user_id, generation, consumer_type_id", (
                    f"'{one.consumer}', {project_ids[one.project]}, "
                    f"{user_ids[one.project + '-user']}, 1, {kind}" for one in claims))
        _insert(connection, "allocations",
                "resource_provider_id, consumer_id, resource_class_id, used", (
                    f"{providers[one.provider]}, '{one.consumer}', {classes[resource]}, {amount}"
                    for one in claims for resource, amount in one.resources.items()))


def _insert(
    connection: sa.Connection, table: str, columns: str, rows: Iterable[str]
) -> None:
    for batch in _batches(rows, _ROWS_IN_AN_INSERT):
        values = "), (".join(batch)
        connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({values})")


def _making(target: client.Target, unit: Sequence[datasets.Provider]) -> Iterator[client.Request]:
    """Yield the requests that make a tree; each waits for the one before."""
    for provider in unit:
        path = f"/resource_providers/{provider.uuid}"
        body = {"uuid": provider.uuid, "name": provider.name}
        if provider.parent:
            body["parent_provider_uuid"] = provider.parent
        yield target.request("POST", "/resource_providers", body)
        yield target.request("PUT", f"{path}/inventories", {
            "resource_provider_generation": 0, "inventories": provider.inventories})
        yield target.request("PUT", f"{path}/aggregates", {
            "resource_provider_generation": 1, "aggregates": provider.aggregates})
        yield target.request("PUT", f"{path}/traits", {
            "resource_provider_generation": 2, "traits": provider.traits})


def _send(target: client.Target, chains: list[list[client.Request]], clients: int) -> None:
    requests = [
        dataclasses.replace(request, flags=0 if request is chain[-1] else client.CHAIN)
        for chain in chains for request in chain
    ]
    if not requests:
        return
    drive = target.drive(requests, clients)
    bad = [answer for answer in drive.answers if not answer.good]
    if bad:
        raise RuntimeError(f"{len(bad)} requests failed: {drive.errors[:1]}")


def _batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


class Progress:
    """How far a load has come: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._started = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Count more as done."""
        self._done = min(self._total, self._done + count)
        now = time.monotonic()
        if now - self._shown < (0.2 if self._terminal else 20):
            return
        self._shown = now
        share = self._done / self._total
        left = (now - self._started) * (1 - share) / share
        text = f"{self._what}: {share:4.0%}, {left:.0f} s left"
        if self._terminal:
            bar = "#" * round(share * 30)
            print(f"\r[{bar:30s}] {text}   ", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)
