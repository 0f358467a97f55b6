"""Race tests from other processes: what they run, and how they are run.

The processes are forked from one that has imported all that jobs need and has done nothing else:
importing takes many times as long as most jobs.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import numpy as np

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db import Session
from placement_core.db.database import Database, Settings
from placement_core.placement import allocations, errors
from placement_core.placement.allocations.gates import Refusals
from placement_core.placement.index import capacity_index
from placement_core.placement.records import AllocationWrite

_SECONDS = 60

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload([
    "testtools.run", __name__, "tests.functional.quota.claimers", "tests.functional.limits.rivals",
    "tests.functional.cells.rivals"])

#: Of a process that does a job: to the test that started it.
_channel: Connection


class Process:
    """A job in a process of its own; it starts its work when told to."""

    def __init__(self, job: Callable[..., None], database: Database, **arguments) -> None:
        """Start the process.

        :param job: a function of a module, which is called with the database and the arguments,
            calls ``wait_for_start`` and says things.
        """
        self._channel, theirs = _forkserver.Pipe()
        self._process = _forkserver.Process(
            target=_play, args=(theirs, job, database.settings.connection, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def ready(self) -> None:
        """Wait until the process only waits for its start."""
        said = self.line()
        if said != "ready":
            raise AssertionError(f"a process did not come up: {said!r}")

    def start(self) -> None:
        self._channel.send("go")

    def line(self):
        """Return the next thing that the process says; None at its end."""
        try:
            return self._channel.recv()
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does."""
        self._process.kill()

    def finish(self) -> list:
        """Return everything else that the process says."""
        documents = []
        deadline = time.monotonic() + _SECONDS
        while self._channel.poll(max(0, deadline - time.monotonic())):
            document = self.line()
            if document is None:
                self._process.join()
                self._channel.close()
                return documents
            documents.append(document)
        self._process.kill()
        raise AssertionError("a process does not end")


def run(*processes: Process, ready: bool = False) -> list[list]:
    """Start processes at the same moment; return what each says.

    :param ready: somebody waited for them to be ready already.
    """
    for process in processes:
        if not ready:
            process.ready()
    for process in processes:
        process.start()
    return [process.finish() for process in processes]


# The jobs -------------------------------------------------------------------


def claim(database: Database, *, provider: str, threads: int, claims: int) -> None:
    """Claim one VCPU for each of ``claims`` new consumers, from some threads."""
    tickets = itertools.count()
    outcomes = []

    def play() -> None:
        ctx = Context(database)
        while next(tickets) < claims:
            consumer = str(uuid.uuid4())
            write = AllocationWrite(
                consumer, {provider: {"VCPU": 1}}, "project", "user", "INSTANCE", None)
            try:
                allocations.replace(ctx, [write])
                outcomes.append("made")
            except Exception as error:
                outcomes.append(type(error).__name__)

    players = [threading.Thread(target=play) for _ in range(threads)]
    wait_for_start()
    for player in players:
        player.start()
    for player in players:
        player.join()
    say({name: outcomes.count(name) for name in set(outcomes)})


def write_until_killed(database: Database, *, providers: list[str], threads: int) -> None:
    """Write, and say which consumer holds what at each acknowledged generation."""
    lock = threading.Lock()

    def play() -> None:
        ctx = Context(database)
        consumers: dict[str, int] = {}
        for turn in itertools.count():
            consumer = str(uuid.uuid4()) if turn % 3 == 0 else next(iter(consumers))
            seen = consumers.pop(consumer, None)
            provider = providers[turn % len(providers)]
            amount = turn % 4 + 1
            allocations.replace(ctx, [AllocationWrite(
                consumer, {provider: {"VCPU": amount, "MEMORY_MB": amount}}, "project", "user",
                "INSTANCE", seen)])
            consumers[consumer] = (seen or 0) + 1
            with lock:
                say({"consumer": consumer, "generation": consumers[consumer],
                      "provider": provider, "amount": amount})

    wait_for_start()
    for _ in range(threads):
        threading.Thread(target=play, daemon=True).start()
    time.sleep(_SECONDS)


def write_in_groups_until_killed(
    database: Database, *, providers: list[str], threads: int, stops_in: int | None = None
) -> None:
    """Write through one queue, and say what is begun, shares a transaction, and was acknowledged.

    A consumer gets as many VCPUs of each provider as its generation says.

    :param stops_in: which group stops when its allocations are written; None: none does.
    """
    lock = threading.Lock()
    queue = allocations.WriteQueue(32)

    def tell(document: object) -> None:
        with lock:
            say(document)

    gate = _GroupGate(tell, stops_in)

    def play() -> None:
        ctx = Context(database)
        consumers: dict[str, int] = {}
        for turn in itertools.count():
            consumer = str(uuid.uuid4()) if turn % 3 == 0 else next(iter(consumers))
            seen = consumers.pop(consumer, None)
            generation = (seen or 0) + 1
            tell({"begun": (consumer, generation)})
            allocations.replace(ctx, [AllocationWrite(
                consumer, {provider: {"VCPU": generation} for provider in providers}, "project",
                "user", "INSTANCE", seen)], [gate], queue=queue)
            consumers[consumer] = generation
            tell({"acknowledged": (consumer, generation)})

    wait_for_start()
    for _ in range(threads):
        threading.Thread(target=play, daemon=True).start()
    time.sleep(_SECONDS)


class _GroupGate(allocations.Gate):
    """Says which writes are to be committed together; may stop one such group for good."""

    def __init__(self, tell: Callable[[object], None], stops_in: int | None) -> None:
        self._tell = tell
        self._stops_in = stops_in
        self._groups = itertools.count(1)

    def prepare(self, ctx: Context, request: allocations.WriteRequest) -> allocations.Check:
        return _GroupCheck()

    def decide(
        self, ctx: Context, checks: Sequence[allocations.Check],
        writes: Sequence[allocations.PlannedWrite],
    ) -> Refusals:
        members = [(each.consumer_uuid, next(iter(each.allocations.values()))["VCPU"])
                   for write in writes for each in write.writes]
        last = checks[-1]
        assert isinstance(last, _GroupCheck)
        last.react = functools.partial(self._end, members)
        return {}

    def _end(self, members: list[tuple[str, int]]) -> None:
        stops = len(members) > 1 and next(self._groups) == self._stops_in
        self._tell({"stopped" if stops else "transaction": members})
        if stops:
            time.sleep(_SECONDS)


class _GroupCheck(allocations.Check):
    def __init__(self) -> None:
        self.react: Callable[[], None] = lambda: None

    def applied(self, session: Session) -> None:
        self.react()


def race_for_generation(database: Database, *, provider: str, consumer: str, rounds: int,
                        amount: int) -> None:
    """Try to be the one who takes a consumer from each generation to the next."""
    ctx = Context(database)
    won = []
    wait_for_start()
    for seen in range(rounds):
        write = AllocationWrite(consumer, {provider: {"VCPU": amount}}, "project", "user",
                                "INSTANCE", seen or None)
        while True:
            try:
                allocations.replace(ctx, [write])
                won.append(seen)
                break
            except errors.ConsumerGenerationConflict as error:
                if (error.actual or 0) > seen:
                    break
    say({"won": won})


def read_fresh(
    database: Database, *, providers: list[int], board: str, threads: int, seconds: float
) -> None:
    """Check that the capacity index shows what was acknowledged before it was asked.

    ``used`` of each provider only rises. The writers note on the board, for each
    provider, the value they are about to write and the last that was acknowledged.
    """
    begun, acknowledged = boards(board, len(providers))
    index = capacity_index.CapacityIndex(database)
    stale: list[list[int]] = []
    asked = itertools.count()
    ends = 0.0

    def play() -> None:
        ctx = Context(database)
        while time.monotonic() < ends:
            least = acknowledged.tolist()
            snapshot = index.snapshot(ctx)
            most = begun.tolist()
            next(asked)
            for place, provider in enumerate(providers):
                entry = snapshot.entry(snapshot.layout.row_of_id[provider])
                used = entry.inventory(0).used
                if not least[place] <= used <= most[place]:
                    stale.append([provider, least[place], used, most[place]])

    players = [threading.Thread(target=play) for _ in range(threads)]
    index.snapshot(Context(database))
    wait_for_start()
    ends = time.monotonic() + seconds
    for player in players:
        player.start()
    for player in players:
        player.join()
    say({"asked": next(asked), "stale": stale[:10], "missed": index.verify(Context(database))})


def boards(path: str, count: int) -> np.ndarray:
    """Return two rows of numbers that several processes share."""
    return np.memmap(path, dtype=np.int64, mode="r+", shape=(2, count))


def wait_for_start() -> None:
    """Say that the job can begin, and wait until it shall; end if the test is gone."""
    _channel.send("ready")
    _channel.recv()


def say(document) -> None:
    """Tell the test something, not None."""
    _channel.send(document)


def _play(
    channel: Connection, job: Callable[..., None], connection: str, arguments: dict[str, object]
) -> None:
    global _channel
    _channel = channel
    database = Database(Settings(connection, sqlite_synchronous=False), Journal(), retries=30)
    job(database, **arguments)
