"""Runs of many writers through many workers, while things fail, and what mirrors are then."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import requests

from benchmarks import processes
from tests.faults import checker, cloud as clouds
from tests.faults.clients import Claimer, Client, Ganger, Lessor, LimitChanger
from tests.faults.history import History, judge
from tests.mirrors import readers, writers
from tests.mirrors.readers import Reader
from tests.mirrors.servers import SERVERS, Server
from tests.server_programs import Program

#: Of each of the two API processes.
_WORKERS = 4
_MOST_SECONDS = 40
#: Until all processes serve again, and nothing is written any more.
_RECOVERY_SECONDS = 60
#: Between two things that happen to connections, and to processes.
_CUT_SECONDS, _KILL_SECONDS = 0.1, 4
_BIG_HOSTS = 20
_NAMES = [f"CUSTOM_MIRROR_{number}" for number in range(6)]
_OPTIONS = {"OS_AUDIT__ENABLED": "true"}
#: What operations that only read are called.
_READS = ("search", "read")


@dataclasses.dataclass
class Report:
    """What came of a run.

    :ivar writes: {outcome: how many writes}.
    :ivar happened: {fault: how often}.
    :ivar revision: how many transactions there were in the end.
    :ivar objects: how many the mirror of everything has.
    :ivar wrong: what must not be, in sentences.
    """

    writes: dict[str, int]
    happened: dict[str, int]
    revision: int
    objects: int
    wrong: list[str]

    def __str__(self) -> str:
        """Return it in a line."""
        faults = ", ".join(f"{times} × {name}" for name, times in sorted(self.happened.items()))
        return (f"{self.writes.get('done', 0)} writes acknowledged, "
                f"{self.writes.get('refused', 0)} refused, "
                f"{self.writes.get('unknown', 0)} without a word; {faults}; revision "
                f"{self.revision}, {self.objects} objects, {len(self.wrong) or 'nothing'} wrong")


def play(
    kind: str, runs: int, *, seconds: float, seed: int, results: pathlib.Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Report]:
    """Let 64 clients write, again and again; in one of the runs the database is restored.

    :param kind: of the database.
    :param seconds: of each run.
    :param results: the folder for the logs of processes, if something was wrong.
    :param say: is told what came of each.
    :returns: of all runs, up to the first in which something was wrong.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(SERVERS[kind]())
        cloud = stack.enter_context(clouds.Cloud(
            server.urls, managers=1, workers=_WORKERS, own_url=server.own_url,
            options={**server.options, **_OPTIONS}))
        folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="placement-mirrors-")))
        mirror_play = _MirrorPlay(server, cloud, random.Random(seed), folder)
        reports = []
        for number in range(runs):
            began = time.monotonic()
            reports.append(mirror_play.run(seconds, restores=number == runs // 2))
            say(f"{kind}, run {number + 1} of {runs} ({time.monotonic() - began:.0f} s): "
                f"{reports[-1]}")
            if reports[-1].wrong:
                reports[-1].wrong += cloud.list_tracebacks()
                if results is not None:
                    for path in cloud.folder.iterdir():
                        (results / f"{path.name}.log").write_text(cloud.read_log(path.name))
                break
        return reports


class _MirrorPlay:
    """A cloud, its clients, and readers that follow from the first run to the last."""

    def __init__(
        self, server: Server, cloud: clouds.Cloud, draw: random.Random, folder: pathlib.Path
    ) -> None:
        self._server = server
        self._cloud = cloud
        self._draw = draw
        self._folder = folder
        self._stopped = threading.Event()
        self._api_turns = itertools.cycle(cloud.apis)
        self._history = History(folder / "history.jsonl")
        self._clients = list(self._make_clients(draw.randrange(10**6)))
        self._lasting = [
            Reader("the reader of everything", cloud.ports, limit=1000),
            Reader("a reader of small pages", cloud.ports, limit=30),
            Reader("a reader of a project", cloud.ports, limit=50, project=cloud.projects[0])]
        # It has a page, and asks for the next one after everything has happened.
        self._resting = Reader("a reader that rested", cloud.ports, limit=100)
        #: Those that had seen more than there was after the restore.
        self._ahead: list[Reader] = []

    def _make_clients(self, seed: int) -> Iterator[Client]:
        cloud = self._cloud
        shared = (cloud.ports, self._history, seed, self._stopped)
        projects = {"projects": cloud.projects}
        big = [cloud.make_host(f"big-{number}", {"MEMORY_MB": 10**8, "DISK_GB": 10**8})
               for number in range(_BIG_HOSTS)]
        for name in _NAMES:
            cloud.ask("PUT", f"/traits/{name}")
        limit = cloud.ask("GET", f"/v3/limits/{cloud.limit}")["limit"]
        domain = cloud.ask("GET", f"/v3/projects/{cloud.projects[0]}")["project"]["domain_id"]
        for number in range(30):
            yield writers.Tenant(f"tenant {number}", *shared, hosts=big, **projects)
        for number in range(14):
            yield Claimer(f"claimer {number}", *shared, **projects,
                          hosts=[cloud.hot] if number < 6 else cloud.hosts)
        for number in range(7):
            yield writers.HostOwner(f"owner {number}", *shared, traits=_NAMES)
        for number in range(4):
            yield Ganger(f"gangs {number}", *shared, trait=clouds.TRAIT, **projects)
            yield writers.Namer(f"namer {number}", *shared, names=_NAMES)
        # They wait for all who depend on limits, and those for them.
        for number in range(2):
            yield writers.Administrator(
                f"administrator {number}", *shared, domain=domain,
                service=limit["service_id"], resource=limit["resource_name"])
            yield Lessor(f"lessor {number}", *shared)
        yield LimitChanger("limits", *shared, limit=cloud.limit, values=(80, 120, 160))

    def run(self, seconds: float, *, restores: bool) -> Report:
        """Play once."""
        self._stopped.clear()
        late = Reader("a late reader", self._cloud.ports, limit=60, start_seconds=seconds / 2)
        following = [*self._lasting, late]
        self._rest()
        before = len(self._history.answers)
        happened = self._let_happen(seconds, restores, [
            *(client.run for client in self._clients),
            *(lambda reader=reader: reader.run(self._stopped) for reader in following)])
        answers = self._history.answers[before:]
        wrong = [f"client {client.name}: {client.failure!r}"
                 for client in self._clients if client.failure]
        wrong += checker.check_answers(answers, _MOST_SECONDS)
        wrong += self._wait_until_served()
        everybody = [*following, self._resting]
        revision, differences = self._judge(everybody)
        wrong += differences
        for reader in everybody:
            wrong += reader.wrong
            reader.wrong = []
        wrong += self._cloud.check_database()
        wrong += [f"{reader.name} was not told that the database was restored"
                  for reader in self._ahead if not reader.restorations]
        writes = collections.Counter(
            judge(answer.status).value for answer in answers
            if not answer.operation.startswith(_READS))
        return Report(dict(writes), dict(happened), revision, len(self._lasting[0].objects), wrong)

    def _rest(self) -> None:
        with contextlib.suppress(requests.RequestException):
            self._resting.follow(0)

    # What happens ---------------------------------------------------------------------

    def _let_happen(
        self, seconds: float, restores: bool, work: Sequence[Callable[[], object]]
    ) -> collections.Counter[str]:
        threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in threads:
            thread.start()
        try:
            return self._disturb(seconds, restores)
        finally:
            self._server.heal()
            self._stopped.set()
            for thread in threads:
                thread.join(2 * _MOST_SECONDS)

    def _disturb(self, seconds: float, restores: bool) -> collections.Counter[str]:
        happened: collections.Counter[str] = collections.Counter()
        copy = self._folder / "copy"
        began = time.monotonic()
        kill_at = began + self._draw.random() * _KILL_SECONDS
        # Each is due once: the rest of the run is for what comes after it.
        due = collections.deque(
            [(began + seconds / 4, "a copy is made", lambda: self._dump(copy)),
             (began + seconds / 2, "the database is restored",
              lambda: self._restore(copy))] if restores else [])
        deadline = began + seconds
        while due or time.monotonic() < deadline:
            if due and time.monotonic() > due[0][0]:
                _, name, happen = due.popleft()
                self._server.heal()
                happen()
                happened[name] += 1
                # However long that took.
                deadline = max(deadline, time.monotonic() + seconds / 4)
            if time.monotonic() > kill_at:
                happened[self._kill()] += 1
                kill_at = time.monotonic() + _KILL_SECONDS
            if self._server.faults:
                fault = self._draw.choice(self._server.faults)
                fault.happen(self._draw)
                happened[fault.name] += 1
            time.sleep(self._draw.random() * 2 * _CUT_SECONDS)
        return happened

    def _dump(self, copy: pathlib.Path) -> None:
        self._server.dump(copy)
        self._copied_revision = self._cloud.read_revision()

    def _restore(self, copy: pathlib.Path) -> None:
        self._ahead = [
            reader for reader in self._lasting if reader.revision > self._copied_revision]
        self._server.restore(copy)

    def _kill(self) -> str:
        """Kill a worker, or the manager; return what was killed."""
        if self._draw.random() < 0.2:
            manager = self._draw.choice(self._cloud.managers)
            manager.kill()
            manager.begin()
            return "the manager is killed"
        # By turns: Granian ends altogether if the same worker ends twice within 5.5 seconds.
        workers = list_workers(next(self._api_turns))
        if not workers:
            return "no worker is there"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._draw.choice(workers), signal.SIGKILL)
        return "a worker is killed"

    def _wait_until_served(self) -> list[str]:
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while not all(map(clouds.is_served, self._cloud.ports)):
            if time.monotonic() > deadline:
                return ["not all API processes serve again"]
            time.sleep(0.1)
        return []

    # What is judged -------------------------------------------------------------------

    def _judge(self, everybody: Sequence[Reader]) -> tuple[int, list[str]]:
        """Compare mirrors with lists of one moment; return its revision and the differences."""
        listing = readers.Listing(self._cloud.ports[0])
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while True:
            # A worker may be killed just now, and the manager goes on.
            with contextlib.suppress(requests.RequestException):
                revision = listing.read_revision()
                for reader in everybody:
                    reader.catch_up()
                listed = {reader.project: listing.read(reader.project) for reader in everybody}
                if listing.read_revision() == revision:
                    return revision, [
                        difference for reader in everybody
                        for difference in readers.compare(
                            reader.name, listed[reader.project], reader.objects)]
            if time.monotonic() > deadline:
                return 0, ["there is no moment in which nothing is written"]
            time.sleep(0.2)


def list_workers(api: Program) -> list[int]:
    """Return the processes of an API process that answer requests."""
    return [pid for pid in processes.tree(api.pid)
            if pid != api.pid and b" worker-" in _read_command(pid)]


def _read_command(pid: int) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
