"""What is asked of a service, and what must be true of it afterwards.

A workload prepares a service, measures it for some seconds as often as wanted,
and leaves the dataset as it was. What it finds wrong (a claim acknowledged that is
not there, a provider over its capacity) is in ``Measurement.problems``.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import time
import uuid
from collections.abc import Callable, Sequence

from benchmarks import agreement, client, datasets, filling, limits

#: More claims than any side makes in a second.
_CLAIMS_PER_SECOND = 4000
_WARMING = 32
#: More answers than ours keeps.
_NEW = 20_000
_PROJECTS = 50
_VAST = {"VCPU": {"total": 10**7}, "MEMORY_MB": {"total": 2 * 10**9}, "DISK_GB": {"total": 10**9}}
#: Since 1.38 upstream answers GET /usages with 500 on PostgreSQL; both are asked below it.
_USAGES = "1.37"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What a service did for some seconds.

    :ivar rate: good ones per second: answers, or loops.
    :ivar cpu_ms: {"server" | "database": processor milliseconds for each}.
    :ivar client_share: of one core, what the generator used.
    :ivar extra: what only this workload knows.
    """

    rate: float
    count: int
    elapsed: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: dict[str, float]
    statuses: dict[str, int]
    mean_bytes: int
    client_share: float
    problems: tuple[str, ...] = ()
    extra: dict[str, object] = dataclasses.field(default_factory=dict)


def summarise(drive: client.Drive, *, steps: int = 1) -> Measurement:
    """Boil down what was noted.

    :param steps: requests that make one thing to count; its last one tells success.
    """
    sent = [one for one in drive.answers if one.status != client.NOT_SENT]
    ended = [one for one in sent if one.index % steps == steps - 1 and one.good]
    # Of a loop, the first step is the one that somebody waits for.
    first = sorted(one.microseconds / 1000 for one in sent
                   if one.index % steps == 0 and one.good)
    statuses = collections.Counter(str(one.status) for one in sent)
    return Measurement(
        rate=len(ended) / drive.elapsed,
        count=len(ended),
        elapsed=drive.elapsed,
        p50_ms=_quantile(first, 0.5),
        p95_ms=_quantile(first, 0.95),
        p99_ms=_quantile(first, 0.99),
        cpu_ms={name: seconds * 1000 / max(1, len(ended)) for name, seconds in drive.cpu.items()},
        statuses=dict(sorted(statuses.items())),
        mean_bytes=sum(one.size for one in sent) // max(1, len(sent)),
        client_share=drive.client_cpu / drive.elapsed,
        extra={"errors": drive.errors[:2]} if drive.errors else {},
    )


class Workload(abc.ABC):
    """One kind of question or order.

    :cvar comparable: whether ``differ`` can compare the answers of both sides.
    """

    comparable = False

    def prepare(self, target: client.Target) -> float:
        """Warm a service up; return how many seconds one request takes."""
        return 0.0

    @abc.abstractmethod
    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        """Keep a service busy."""

    def differ(self, ours: client.Target, upstream: client.Target) -> str | None:
        """Ask both the same; return what differs, or None."""
        raise NotImplementedError


class Asking(Workload):
    """The same kind of GET, in some variants so that no two in a row are equal."""

    comparable = True

    def prepare(self, target: client.Target) -> float:
        requests = self._requests(target)
        target.drive(requests[:1], 1)
        started = time.monotonic()
        target.drive(requests[-1:], 1)
        seconds = time.monotonic() - started
        if seconds < 0.5:  # every thread of every worker once, more or less
            target.drive((requests * _WARMING)[:_WARMING], 8)
        return seconds

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        found = summarise(target.drive(self._requests(target), clients, seconds=seconds))
        return with_problems(found, _refusals(found))

    @abc.abstractmethod
    def _requests(self, target: client.Target) -> list[client.Request]:
        """Return what is asked of a service."""


class Reads(Asking):
    """The same paths on both sides."""

    def __init__(self, paths: Sequence[str], *, version: str = "1.39") -> None:
        self._paths = tuple(paths)
        self._version = version

    def differ(self, ours: client.Target, upstream: client.Target) -> str | None:
        path = self._paths[-1]
        compare = agreement.legal if "&limit=" in path else agreement.same
        return compare(ours.at(self._version), upstream.at(self._version), path)

    def _requests(self, target: client.Target) -> list[client.Request]:
        return [target.at(self._version).request("GET", path) for path in self._paths]


class Usages(Reads):
    """GET /usages of one project."""

    def __init__(self, project: str) -> None:
        super().__init__([f"/usages?project_id={project}"], version=_USAGES)


class Limits(Asking):
    """GET /v3/limits of the same things on both sides, which each calls by ids of its own.

    :param queries: of what a side calls things.
    """

    def __init__(self, queries: Callable[[limits.Ids], Sequence[str]]) -> None:
        self._queries = queries

    def differ(self, ours: client.Target, upstream: client.Target) -> str | None:
        sides = [ours.at(None), upstream.at(None)]
        paths = [self._paths(side)[-1] for side in sides]
        found = [side.call("GET", path) for side, path in zip(sides, paths, strict=True)]
        return agreement.same_limits(found, [limits.ids(side) for side in sides], paths[0])

    def _paths(self, target: client.Target) -> list[str]:
        return [f"/v3/limits?{query}" for query in self._queries(limits.ids(target))]

    def _requests(self, target: client.Target) -> list[client.Request]:
        target = target.at(None)
        return [target.request("GET", path) for path in self._paths(target)]


class NewLimits(Limits):
    """The same, no question asked twice, so that no kept answer helps."""

    def _requests(self, target: client.Target) -> list[client.Request]:
        run = uuid.uuid4().hex[:8]
        target = target.at(None)
        paths = self._paths(target)
        # What a side does not know in a query it ignores.
        return [target.request("GET", f"{paths[number % len(paths)]}&asked={run}-{number}")
                for number in range(_NEW)]


class KnownLimits(Limits):
    """The same by somebody who knows the answers, from a side that has ETags.

    One that has none is asked without.
    """

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        found = super().measure(target, clients, seconds)
        if set(found.statuses) == {"304"}:
            return found
        return with_problems(found, [*found.problems, "answers that are known are sent again"])

    def _requests(self, target: client.Target) -> list[client.Request]:
        target = target.at(None)
        paths = self._paths(target)
        if not target.header("ETag", "GET", paths[0]):
            return [target.request("GET", path) for path in paths]
        return [target.request("GET", path, etag=target.header("ETag", "GET", path))
                for path in paths]


class Claims(Workload):
    """PUT /allocations of new consumers, deleted again afterwards.

    :param places: the providers to claim on, in turn; None: one vast provider of its own.
    :param projects: how many new projects the consumers belong to; or returns the ids
        of projects that a service has.
    """

    def __init__(
        self, places: Callable[[], Sequence[str]] | None,
        projects: int | Callable[[client.Target], Sequence[str]] = 1,
    ) -> None:
        self._places = places
        self._projects = projects

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        run = uuid.uuid4().hex[:8]
        places = self._places() if self._places else [_make_provider(target, _VAST, run)]
        projects = (
            [f"bench-{run}-{number}" for number in range(self._projects)]
            if isinstance(self._projects, int) else self._projects(target))
        # The first claim of a project makes it; that is not what is measured.
        first = [_put(target, f"{run} first {number}", places[number % len(places)], project)
                 for number, project in enumerate(projects)]
        consumers = [f"{run} {number}" for number in range(int(seconds * _CLAIMS_PER_SECOND) + 64)]
        requests = [
            _put(target, consumer, places[number % len(places)], projects[number % len(projects)])
            for number, consumer in enumerate(consumers)
        ]
        target.drive(first, 1)
        drive = target.drive(requests, clients, seconds=seconds, at_most=len(requests))
        found = summarise(drive)
        held = [consumers[one.index] for one in drive.answers if one.good]
        held += [f"{run} first {number}" for number in range(len(projects))]
        problems = [*_refusals(found), *_miscounted(target, projects, len(held))]
        _delete(target, held)
        if self._places is None:
            target.must("DELETE", f"/resource_providers/{places[0]}")
        return with_problems(found, problems)


class Tight(Workload):
    """Four times more claims at once than one provider has room for."""

    room = 60
    rivals = 240

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        run = uuid.uuid4().hex[:8]
        place = _make_provider(target, {**_VAST, "VCPU": {"total": self.room}}, run)
        project = f"bench-{run}"
        consumers = [f"{run} {number}" for number in range(self.rivals)]
        drive = target.drive([_put(target, one, place, project) for one in consumers], clients)
        found = summarise(drive)
        held = [consumers[one.index] for one in drive.answers if one.good]
        used = target.must("GET", f"/resource_providers/{place}/usages")["usages"]["VCPU"]
        problems = list(_miscounted(target, [project], len(held)))
        if not used == len(held) == self.room:
            problems.append(f"{len(held)} acknowledged and {used} used of {self.room}")
        if odd := set(found.statuses) - {"204", "409"}:
            problems.append(f"answers {', '.join(sorted(odd))}")
        _delete(target, held)
        target.must("DELETE", f"/resource_providers/{place}")
        found.extra.pop("errors", None)
        found.extra.update(room=self.room, acknowledged=len(held), used=used)
        return with_problems(found, problems)


class ManyClaims(Workload):
    """POST /allocations of ten new consumers, each on a provider of its own."""

    consumers = 10

    def __init__(self, places: Callable[[], Sequence[str]]) -> None:
        self._places = places

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        run = uuid.uuid4().hex[:8]
        project = f"bench-{run}"
        places = self._places()
        posts = []
        for post in range(int(seconds * _CLAIMS_PER_SECOND) // self.consumers + 8):
            posts.append([f"{run} {post} {number}" for number in range(self.consumers)])
        requests = [
            target.request("POST", "/allocations", {
                datasets.uid(one): filling.allocation(
                    places[(post * self.consumers + number) % len(places)], datasets.CLAIM,
                    project)
                for number, one in enumerate(consumers)})
            for post, consumers in enumerate(posts)
        ]
        drive = target.drive(requests, clients, seconds=seconds, at_most=len(requests))
        found = summarise(drive)
        held = [one for answer in drive.answers if answer.good for one in posts[answer.index]]
        problems = [*_refusals(found), *_miscounted(target, [project], len(held))]
        _delete(target, held)
        return with_problems(found, problems)


class Gangs(Workload):
    """POST /capacity/v1/claims with ``find``: members that are spread over hosts."""

    members = 16

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        run = uuid.uuid4().hex[:8]
        project = f"bench-{run}"
        gangs = [[f"{run} {number} {member}" for member in range(self.members)]
                 for number in range(int(seconds * _CLAIMS_PER_SECOND) // self.members + 8)]
        requests = [
            target.request("POST", "/capacity/v1/claims", {"claim": {
                "project_id": project, "user_id": project, "consumer_type": "INSTANCE",
                "find": {"members": self.members, "resources": datasets.CLAIM,
                         "spread_by": "host",
                         "consumer_uuids": [datasets.uid(one) for one in gang]}}})
            for gang in gangs
        ]
        # The first claim of a project makes it; that is not what is measured.
        target.drive(requests[:1], 1)
        drive = target.drive(requests[1:], clients, seconds=seconds, at_most=len(requests) - 1)
        found = summarise(drive)
        held = [*gangs[0], *(one for answer in drive.answers if answer.good
                             for one in gangs[answer.index + 1])]
        problems = [*_refusals(found), *_miscounted(target, [project], len(held))]
        _delete(target, held)
        return with_problems(found, problems)


class ScheduleLoop(Workload):
    """What a scheduler does: candidates, a claim on one of them, and later the end of it."""

    steps = 3

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)

    def prepare(self, target: client.Target) -> float:
        return Reads(self._paths).prepare(target)

    def measure(self, target: client.Target, clients: int, seconds: float) -> Measurement:
        run = uuid.uuid4().hex[:8]
        project = f"bench-{run}"
        requests = []
        for number in range(64 * clients):
            path = f"/allocations/{datasets.uid(f'{run} {number}')}"
            body = filling.allocation(client.MARK, datasets.CLAIM, project)
            requests += [
                target.request("GET", self._paths[number % len(self._paths)],
                               flags=client.CHAIN | client.CAPTURE),
                target.request("PUT", path, body, flags=client.CHAIN | client.PLACE),
                target.request("DELETE", path),
            ]
        drive = target.drive(requests, clients, seconds=seconds)
        found = summarise(drive, steps=self.steps)
        return with_problems(found, [*_refusals(found), *_miscounted(target, [project], 0)])


def with_problems(found: Measurement, problems: Sequence[str]) -> Measurement:
    """Return a measurement with what was wrong."""
    return dataclasses.replace(found, problems=tuple(problems))


def _refusals(found: Measurement) -> list[str]:
    bad = {status: count for status, count in found.statuses.items()
           if status[0] != "2" and status != "304"}
    return [f"{count} answers {status}" for status, count in bad.items()]


def _miscounted(target: client.Target, projects: Sequence[str], claims: int) -> list[str]:
    """Compare what projects use with what was acknowledged."""
    used: collections.Counter[str] = collections.Counter()
    for project in projects:
        used.update(target.at(_USAGES).must("GET", f"/usages?project_id={project}")["usages"])
    wanted = {name: amount * claims for name, amount in datasets.CLAIM.items() if claims}
    found = {name: amount for name, amount in used.items() if amount}
    return [] if found == wanted else [f"usages {found}, acknowledged {wanted}"]


def _make_provider(target: client.Target, inventories: datasets.Inventories, run: str) -> str:
    made = datasets.uid("provider", run)
    target.must("POST", "/resource_providers", {"uuid": made, "name": f"bench-{run}"})
    target.must("PUT", f"/resource_providers/{made}/inventories", {
        "resource_provider_generation": 0, "inventories": inventories})
    return made


def _put(target: client.Target, consumer: str, provider: str, project: str) -> client.Request:
    return target.request("PUT", f"/allocations/{datasets.uid(consumer)}",
                          filling.allocation(provider, datasets.CLAIM, project))


def _delete(target: client.Target, consumers: Sequence[str]) -> None:
    """Delete what consumers hold; what fails at once (locks) is tried again one by one."""
    requests = [target.request("DELETE", f"/allocations/{datasets.uid(one)}") for one in consumers]
    clients = 8
    for _ in range(20):
        if not requests:
            return
        drive = target.drive(requests, clients)
        requests = [requests[one.index] for one in drive.answers if one.status not in (204, 404)]
        clients = 1
    raise RuntimeError(f"{len(requests)} allocations cannot be deleted: {drive.errors[:1]}")


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
