"""A play: a load of clients, one disturbance after the other, and what came of it."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import pathlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from tests.faults import checker, cloud as clouds, disturbances, engine as engines
from tests.faults.checker import StaleTime
from tests.faults.disturbances import Disturbance
from tests.faults.history import History, Outcome, Read, Write
from tests.server_programs import NoServerError

#: Until all processes serve again after a disturbance. No client may be unserved for longer.
RECOVERY_SECONDS = 30
#: No answer may take longer while things go wrong.
MOST_SECONDS = 30
#: Between two disturbances.
_QUIET_SECONDS = 2
#: Until all that is due is done, in the end.
_DUE_SECONDS = 90
#: Events that are due for so long are late.
_LATE_SECONDS = 30


class NothingHappensError(Exception):
    """Nothing that happens to the database has the name that was asked for."""


class Cluster(Protocol):
    """A database, and what may happen to it.

    :ivar urls: of the database, one for each API process.
    :ivar has_server: whether it has a clock of its own, and bounds what a stopped process keeps
        from others.
    """

    urls: Sequence[str]
    has_server: bool

    def list_disturbances(self) -> list[Disturbance]:
        """Return what may happen."""


@dataclasses.dataclass(frozen=True)
class Length:
    """How long a play is.

    :ivar seconds: for which disturbances begin.
    :ivar rounds: how often each disturbance of the database happens at most.
    """

    seconds: float = math.inf
    rounds: int | None = None


@dataclasses.dataclass
class Report:
    """What came of a play.

    :ivar engine: what the database is, and what check-engine says of it.
    :ivar happened: {disturbance: how often}.
    :ivar back: after how many seconds all processes served again, at most.
    :ivar statuses: {operation: {status or "none": how often}}.
    :ivar writes: {outcome: how many writes of single objects}.
    :ivar silence: for how many seconds a client had no answer but 503s, at most.
    :ivar slowest: how many seconds an answer took at most.
    :ivar stale: how many reads had what was before an acknowledged write, while that may be.
    :ivar wrong: what must not be, in sentences.
    """

    kind: str
    seed: int
    seconds: float
    engine: engines.Engine
    happened: Mapping[str, int]
    back: float
    statuses: Mapping[str, Mapping[str, int]]
    writes: Mapping[str, int]
    silence: float
    slowest: float
    stale: int
    wrong: Sequence[str]

    def write_json(self) -> str:
        """Return it for programs."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    def write_text(self) -> str:
        """Return it for people."""
        done = self.writes.get(Outcome.DONE.value, 0)
        lines = [
            f"{self.kind}, seed {self.seed}, {self.seconds:.0f} s:",
            f"  {self.engine.name}: {self.engine.checks} checks of the engine, "
            f"{len(self.engine.limitations)} with a limitation",
            f"  {done} writes acknowledged, {self.writes.get(Outcome.REFUSED.value, 0)} refused, "
            f"{self.writes.get(Outcome.UNKNOWN.value, 0)} without a word; "
            f"{len(self.wrong) or 'nothing'} wrong",
            f"  longest silence of a client {self.silence:.1f} s, slowest answer "
            f"{self.slowest:.1f} s, all processes back after {self.back:.1f} s at most",
            *([f"  {self.stale} reads of what was before an acknowledged write"]
              if self.stale else []),
            *(f"  limitation: {sentence}" for sentence in self.engine.limitations),
            *(f"  {times} × {name}" for name, times in sorted(self.happened.items())),
            *(f"  {operation}: " + ", ".join(
                f"{status} {times}" for status, times in sorted(statuses.items()))
              for operation, statuses in sorted(self.statuses.items())),
            *(f"  WRONG: {sentence}" for sentence in self.wrong),
        ]
        return "\n".join(lines)


def play(
    kind: str, cluster: Cluster, cloud: clouds.Cloud, *, length: Length, seed: int,
    folder: pathlib.Path, say: Callable[[str], None], recovery: float = RECOVERY_SECONDS,
    only: str = "",
) -> Report:
    """Check the engine, and let it happen.

    :param recovery: within so many seconds all processes have to serve again, and all clients
        have to be served.
    :param folder: where the history is written.
    :param say: is told what happens.
    :param only: a pattern: what happens to the database has a name with it.
    :raises NothingHappensError: nothing of that name happens to this database.
    """
    history = History(folder / "history.jsonl")
    stopped = threading.Event()
    clients = cloud.make_clients(history, seed, stopped)
    director = _Director(
        _select(cluster, only), disturbances.list_for_processes(
            cloud.apis, cloud.managers, has_server=cluster.has_server),
        cloud, random.Random(seed), say, recovery)
    engine = engines.check(cluster.urls[0])
    say(f"{engine.name}: {engine.checks} checks of the engine")
    began = time.monotonic()
    threads = [threading.Thread(target=client.run, name=client.name, daemon=True)
               for client in clients]
    for thread in threads:
        thread.start()
    try:
        director.disturb(length)
        # Without a disturbance at last: everybody has to be answered again.
        time.sleep(_QUIET_SECONDS)
    finally:
        stopped.set()
        for thread in threads:
            thread.join(2 * MOST_SECONDS)
    ended = time.monotonic()
    wrong = [f"client {client.name}: {client.failure!r}" for client in clients if client.failure]
    wrong += [f"client {thread.name} waits for an answer" for thread in threads
              if thread.is_alive()]
    wrong += engine.failures
    wrong += checker.check_silence(history.answers, ended, recovery)
    stale = checker.list_stale_reads(history.events, frozenset(), director.stale_times)
    wrong += director.wrong + wait_for_events(cloud) + check(cloud, history, stale)
    wrong += checker.check_tags(history.events, director.stale_times)
    history.close()
    return _report(
        kind, seed, ended - began, engine, director, history, ended, len(stale), wrong)


def _select(cluster: Cluster, only: str) -> list[Disturbance]:
    possible = cluster.list_disturbances()
    selected = [each for each in possible if re.search(only, each.name)]
    if not selected:
        names = ", ".join(each.name for each in possible)
        raise NothingHappensError(f"nothing that happens is named {only!r}, but: {names}")
    return selected


class _Director:
    """Lets one disturbance after the other happen, in an order of chance."""

    def __init__(
        self, of_database: Sequence[Disturbance], of_processes: Sequence[Disturbance],
        cloud: clouds.Cloud, chance: random.Random, say: Callable[[str], None], recovery: float,
    ) -> None:
        self._kinds = (of_database, of_processes)
        self._cloud = cloud
        self._chance = chance
        self._say = say
        self._recovery = recovery
        self.happened: collections.Counter[str] = collections.Counter()
        self.back = 0.0
        self.stale_times: list[StaleTime] = []
        self.wrong: list[str] = []

    def disturb(self, length: Length) -> None:
        deadline = time.monotonic() + length.seconds
        # One of processes follows on each of the database.
        most = None if length.rounds is None else 2 * length.rounds * len(self._kinds[0])
        for disturbance in itertools.islice(self._choose(), most):
            time.sleep(_QUIET_SECONDS)
            if time.monotonic() > deadline:
                return
            self._let(disturbance)

    def _choose(self) -> Iterator[Disturbance]:
        """Yield disturbances of the database and of processes in turns, each once in a round."""
        rounds = [self._shuffle(kind) for kind in self._kinds]
        while True:
            yield from map(next, rounds)

    def _shuffle(self, kind: Sequence[Disturbance]) -> Iterator[Disturbance]:
        while True:
            yield from self._chance.sample(kind, len(kind))

    def _let(self, disturbance: Disturbance) -> None:
        self._say(disturbance.name)
        self.happened[disturbance.name] += 1
        began = time.monotonic()
        try:
            with disturbance.during():
                time.sleep(disturbance.seconds)
        except NoServerError as error:
            self.wrong.append(f"{disturbance.name}: {error}")
        self.stale_times += [
            StaleTime(self._cloud.ports[api], began, time.monotonic())
            for api in disturbance.stale_apis]
        began = time.monotonic()
        while not all(map(clouds.is_served, self._cloud.ports)):
            if time.monotonic() - began > self._recovery:
                self.wrong.append(f"{disturbance.name}: not all API processes serve again after "
                                  f"{self._recovery:g} s")
                return
            time.sleep(0.1)
        self.back = max(self.back, time.monotonic() - began)


def wait_for_events(cloud: clouds.Cloud) -> list[str]:
    """Wait until managers have done what is due; return what is wrong."""
    deadline = time.monotonic() + _DUE_SECONDS
    while late := cloud.count_late(_LATE_SECONDS):
        if time.monotonic() > deadline:
            return [f"{late} events of leases are late, and managers run"]
        time.sleep(0.5)
    return []


def check(cloud: clouds.Cloud, history: History, stale: Sequence[Read] = ()) -> list[str]:
    """Compare what clients noted with what there is in the end; return what is wrong.

    :param stale: reads that the database may have answered so.
    """
    final = cloud.read_final()
    limit = f"limit {cloud.limit}"
    events = [event for event in history.events if event not in stale]
    consumers = [event for event in events if event.name.startswith("consumer")]
    others = [event for event in events if not event.name.startswith("consumer")]
    return [
        *checker.check_objects(consumers, {}, frozenset(), {
            name: value for name, value in final.items() if name.startswith("consumer")}),
        *checker.check_objects(others, {limit: cloud.first_limit}, None, {
            name: value for name, value in final.items() if not name.startswith("consumer")}),
        *checker.check_versions(events),
        *checker.check_together(events, frozenset(), final),
        *checker.check_capacity(consumers, cloud.capacity),
        *checker.check_quota(events, limit, cloud.first_limit, clouds.CLASS,
                             {event.name for event in consumers}),
        *checker.check_answers(history.answers, MOST_SECONDS),
        *cloud.check_database(),
    ]


def _report(
    kind: str, seed: int, seconds: float, engine: engines.Engine, director: _Director,
    history: History, ended: float, stale: int, wrong: Sequence[str],
) -> Report:
    statuses: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for answer in history.answers:
        statuses[answer.operation][str(answer.status or "none")] += 1
    writes = collections.Counter(
        event.outcome.value for event in history.events if isinstance(event, Write))
    return Report(
        kind, seed, seconds, engine, dict(director.happened), director.back,
        {operation: dict(counts) for operation, counts in statuses.items()}, dict(writes),
        checker.find_longest_silence(history.answers, ended),
        max(answer.ended - answer.began for answer in history.answers), stale, wrong)
