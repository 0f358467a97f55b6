"""Brings the side that does not answer to the state of the one that does, and compares them."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping

from placement_core.shadow import reports, rereading, rules
from placement_core.shadow.messages import (
    Answer,
    Headers,
    NoAnswer,
    Request,
    Service,
    parse_object,
)
from placement_core.shadow.modes import Side
from placement_core.shadow.ordering import OrderedQueue
from placement_core.shadow.state import State
from placement_core.shadow.touched import (
    COLLECTIONS,
    Holdings,
    Key,
    Touched,
    find_new_uuid,
    find_touched,
    list_records,
)

LOG = logging.getLogger(__name__)

#: What lets a request in; nothing else of a client's request is used for ours.
_CREDENTIALS = frozenset({"x-auth-token", "authorization", "x-service-token"})
#: How many objects are read again in one go, and how long the next attempt waits.
_MOST_REREAD = 50
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 30.0
_FLUSH_SECONDS = 1.0
#: With so many waiting, no read is compared. With fewer, it is soon done.
_MOST_BEFORE_COMPARISON = 50
_FEW_WAITING = 20
#: How long an answer may take that no client waits for.
_MOST_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
#: What a side answers to a write that it has already: gone, or made, or with another generation.
_REFUSALS = frozenset({404, 409})

_NOT_REACHED = "the second side was not reached"
_NO_OUTCOME = "the first side did not say what became of a write"
_QUEUE_FULL = "too many writes were waiting"


@dataclasses.dataclass(eq=False, slots=True)
class Passing:
    """A request that passes the proxy.

    :ivar begun: when it was sent, in ticks.
    :ivar overlapped: of a read: whether a write ran beside it that may have changed the answer.
    """

    request: Request
    touched: Touched
    begun: int
    overlapped: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Write:
    """A write that was acknowledged.

    :ivar ended: when that was, in ticks.
    """

    request: Request
    answer: Answer
    touched: Touched
    begun: int
    ended: int


class _Bounded:
    """A service that answers within a bound, or not at all."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ask(self, request: Request) -> Answer:
        """Return its answer.

        :raises NoAnswer: there is none.
        """
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                return await self._service.ask(request)
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {_MOST_SECONDS:g} seconds") from error


class Follower:
    """Applies writes to the second side, compares reads, reads again what differs.

    :param services: both sides.
    :param compare_percent: how many of 100 reads are compared.
    :param most_waiting: how many writes may wait; of what is above, objects are read again.
    :param find_token: returns a token to read again with; by default that of the last write.
    :param set_generation: sets generations of ours that HTTP cannot; None: nothing does.
    """

    def __init__(
        self, services: Mapping[Side, Service], state: State, *, compare_percent: float,
        most_waiting: int, version: tuple[int, int],
        find_token: Callable[[], str | None] = lambda: None,
        set_generation: rereading.SetGeneration | None = None,
    ) -> None:
        self._services = {side: _Bounded(service) for side, service in services.items()}
        self._state = state
        self._compare_percent = compare_percent
        self._version = version
        self._find_token = find_token
        self._set_generation = set_generation
        self._queue = OrderedQueue(most_waiting)
        self._holdings = Holdings()
        self._passing: set[Passing] = set()
        self._ticks = itertools.count(1)
        #: When objects were read again the last time, for as long as writes wait; when marked.
        self._reread_at: dict[Key, int] = {}
        #: The same, when that was done.
        self._reread_until: dict[Key, int] = {}
        self._marked_at: dict[Key, int] = {}
        self._last_credentials: Headers = ()
        #: What was written since somebody asked to know.
        self.written: set[Key] | None = None
        #: Whether reads are compared, and marked objects read again now and then. Not while the
        #: sides change: that needs the time, and what is read then would be written in the
        #: direction from before.
        self.compares = True

    def begin(self, request: Request) -> Passing:
        """Note that a request is about to be sent to the side that answers."""
        passing = Passing(request, find_touched(request, self._holdings), next(self._ticks))
        for other in self._passing:
            if request.is_read != other.request.is_read and passing.touched.overlaps(
                    other.touched):
                passing.overlapped = other.overlapped = True
        self._passing.add(passing)
        if not request.is_read and self._state.mode.follows:
            self._state.begin(passing.begun, passing.touched.objects)
        return passing

    def end(self, passing: Passing, answer: Answer | None) -> None:
        """Note what became of a request: what follows is queued at once, in order.

        :param answer: None: there is none.
        """
        self._passing.discard(passing)
        state, side = self._state, self._state.mode.answering
        state.count(reports.REQUESTS)
        if answer is None or answer.status >= 500:
            state.count(reports.ERRORS + side)
        if answer is not None:
            state.measure(side, answer.seconds)
        if not state.mode.follows:
            state.end(passing.begun)
        elif passing.request.is_read:
            if answer is not None and random.random() * 100 < self._compare_percent:  # noqa: S311
                self._queue_comparison(passing, answer)
        elif answer is None or answer.status >= 500:
            self._mark(passing.touched.objects, _NO_OUTCOME)
            state.end(passing.begun)
        elif answer.is_success:
            self._queue_write(passing, answer)
        else:
            state.end(passing.begun)

    async def drain(self) -> None:
        """Wait until everything is applied; try once to read again what is marked."""
        await self._queue.drain()
        if self._state.marks:
            self._queue_rereads(self._state.marks)
            await self._queue.drain()

    async def catch_up(self, seconds: float, report: rereading.Report) -> bool:
        """Wait until few writes wait; tell whether that is so within a time."""
        clock = asyncio.get_running_loop().time
        deadline, most = clock() + seconds, len(self._queue)
        while len(self._queue) > _FEW_WAITING:
            if clock() >= deadline:
                return False
            most = max(most, len(self._queue))
            report("writes applied", most - len(self._queue), most)
            await asyncio.sleep(_PAUSE_SECONDS)
        return True

    async def reread(self, keys: Collection[Key]) -> None:
        """Read objects again that differ without any request having said so."""
        for key in set(keys) - self._state.marks.keys():
            self._state.count(f"{reports.CAUSE}comparison of all: {key.kind}")
        self._mark(keys, "it differed in a comparison of all")
        await asyncio.wait(self._queue_rereads(keys))

    async def drain_within(self, seconds: float) -> None:
        """Apply what waits, if that is soon done; the rest is read again at the next start."""
        await asyncio.wait([asyncio.ensure_future(self._queue.drain())], timeout=seconds)

    async def run(self) -> None:
        """Write counts, and read marked objects again, for ever."""
        wait = _FIRST_WAIT_SECONDS
        flushed = marked = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            now = asyncio.get_running_loop().time()
            if now - flushed >= _FLUSH_SECONDS:
                self._state.flush()
                flushed = now
            if not (self._state.marks and self._state.mode.follows):
                wait = _FIRST_WAIT_SECONDS
            elif self.compares and now - marked >= wait and not len(self._queue):
                self._queue_rereads(self._state.marks)
                wait, marked = min(wait * 2, _LONGEST_WAIT_SECONDS), now

    def make_clients(self) -> tuple[rereading.Client, rereading.Client] | None:
        """Return clients of the side that answers and of the other; None: without a token."""
        credentials = self._list_credentials()
        if not credentials:
            return None
        answering = self._state.mode.answering
        first, second = (
            rereading.Client(
                self._services[side], credentials, self._version,
                lambda key, side=side: self._state.translate(key, side))  # type: ignore[misc]
            for side in (answering, answering.other))
        return first, second

    def _queue_write(self, passing: Passing, answer: Answer) -> None:
        state, request = self._state, passing.request
        state.count(reports.WRITES)
        touched = find_touched(request, self._holdings, answer)
        self._holdings.learn(request, answer)
        self._last_credentials = tuple(
            (name, value) for name, value in request.headers if name.lower() in _CREDENTIALS)
        if self.written is not None:
            self.written |= touched.objects
        if touched.objects - passing.touched.objects:
            state.begin(passing.begun, touched.objects - passing.touched.objects)
        if self._queue.is_full and touched.objects:
            self._mark(touched.objects, _QUEUE_FULL)
            state.end(passing.begun)
            return
        write = _Write(request, answer, touched, passing.begun, next(self._ticks))
        self._queue.submit(touched, lambda: self._apply(write))

    def _queue_comparison(self, passing: Passing, answer: Answer) -> None:
        touched = passing.touched
        # Writes come first: most comparisons let nothing run beside them.
        is_busy = not self.compares or len(self._queue) >= _MOST_BEFORE_COMPARISON
        if passing.overlapped or is_busy:
            self._state.count(reports.OVERLAPPED)
            return
        self._queue.submit(touched, lambda: self._compare(passing, answer))

    def _queue_rereads(self, keys: Iterable[Key]) -> list[asyncio.Task[None]]:
        ordered = sorted(keys)
        chunks = [frozenset(ordered[number:number + _MOST_REREAD])
                  for number in range(0, len(ordered), _MOST_REREAD)]
        return [
            self._queue.submit(
                Touched(chunk), lambda chunk=chunk: self._reread(chunk))  # type: ignore[misc]
            for chunk in chunks]

    async def _apply(self, write: _Write) -> None:
        """Bring the second side to where the first is after a write."""
        objects = write.touched.objects
        try:
            rereads = [self._reread_at.get(key, 0) for key in objects]
            if objects and min(rereads) > write.ended and not self._is_marked(objects):
                return  # What was read again had it already.
            # What was read while it was written may have it, or not.
            is_unclear = self._is_marked(objects) or max(rereads, default=0) > write.begun
            is_late = any(
                self._reread_until.get(key, 0) > write.begun for key in objects)
            if is_unclear or not await self._send(write, is_late=is_late):
                await self._reread(objects)
        except NoAnswer:
            self._state.count(reports.ERRORS + self._second)
            self._mark(objects, _NOT_REACHED)
        finally:
            self._state.end(write.begun)
            if len(self._queue) <= 1 and not self._passing:
                # Nothing is under way any more that could have been read again already.
                self._reread_at.clear()
                self._reread_until.clear()

    async def _send(self, write: _Write, *, is_late: bool) -> bool:
        """Send a write to the second side; tell whether it answers as the first did.

        :param is_late: whether the second side may have it: the first carried it out while its
            objects were read again. Then a refusal is no difference.
        """
        answer = await self._services[self._second].ask(
            self._translate(adapt(write.request, write.answer)))
        self._learn_identities(write, answer)
        self._state.measure(self._second, answer.seconds)
        if answer.status >= 500:
            self._state.count(reports.ERRORS + self._second)
        if is_late and answer.status in _REFUSALS:
            self._state.count(reports.OVERLAPPED)
            return False
        is_equal = self._count_comparison(write.request, write.answer, answer)
        if is_equal:
            self._state.count(reports.APPLIED)
        return is_equal

    async def _compare(self, passing: Passing, first: Answer) -> None:
        """Ask the second side what the first was asked, and compare."""
        request, touched = passing.request, passing.touched
        if self._is_marked(touched.objects) or (touched.alone and self._state.marks):
            self._state.count(reports.OVERLAPPED)
            return
        if any(tick > passing.begun for key, tick in self._reread_until.items()
               if touched.alone or key in touched.objects):
            # The second side may be ahead of what the first answered then.
            self._state.count(reports.OVERLAPPED)
            return
        try:
            second = await self._services[self._second].ask(self._translate(request))
        except NoAnswer:
            self._state.count(reports.ERRORS + self._second)
            return
        self._state.measure(self._second, second.seconds)
        if second.status >= 500:
            self._state.count(reports.ERRORS + self._second)
        if self._count_comparison(request, first, second):
            self._state.count(reports.EQUAL)
        else:
            self._mark(touched.objects, "a read differs")

    def _count_comparison(self, request: Request, first: Answer, second: Answer) -> bool:
        comparison = rules.compare(request, first, second)
        if comparison.cause is None:
            for name in comparison.noise:
                self._state.count(reports.NOISE + name)
            return True
        answers = {self._state.mode.answering: first, self._second: second}
        self._state.differ(
            comparison.cause, request.method, request.target,
            *(_describe(answers[side]) for side in (Side.UPSTREAM, Side.OURS)))
        return False

    async def _reread(self, objects: Collection[Key]) -> None:
        """Read objects of the first side again, and write them into the second."""
        clients = self.make_clients()
        if clients is None or not objects:
            self._mark(objects, "there is no token to read it again with")
            return
        tick = next(self._ticks)
        self._reread_at.update(dict.fromkeys(objects, tick))
        copier = rereading.Copier(
            *clients, self._learn, self._set_generation if self._second is Side.OURS else None)
        try:
            unresolved = await copier.copy(objects)
        except NoAnswer:
            self._state.count(reports.ERRORS + self._second)
            self._mark(objects, _NOT_REACHED)
            return
        except rereading.Refused as error:
            self._mark(objects, str(error))
            return
        finally:
            self._reread_until.update(dict.fromkeys(objects, next(self._ticks)))
        same = [key for key in objects if key not in unresolved]
        self._state.unmark(key for key in same if self._marked_at.get(key, 0) < tick)
        self._state.count(reports.REREAD, len(same))
        for key, reason in unresolved.items():
            self._mark([key], reason)

    def _translate(self, request: Request) -> Request:
        """Return a request with the id that what it names has on the second side."""
        match request.path.split("/"):
            case ["", "v3", collection, id_] if collection in COLLECTIONS:
                translated = self._state.translate(
                    Key(COLLECTIONS[collection], id_), self._second)
                return dataclasses.replace(request, target=request.target.replace(
                    f"/{id_}", f"/{translated}", 1))
            case _:
                return request

    def _learn_identities(self, write: _Write, answer: Answer) -> None:
        """Take note of the ids that both sides made of the same records, which are in order."""
        collection = write.request.path.rpartition("/")[2]
        if write.request.method == "POST" and collection in COLLECTIONS and answer.is_success:
            records = [list_records(collection, made) for made in (write.answer, answer)]
            for theirs, ours in zip(*records, strict=False):
                self._learn(Key(COLLECTIONS[collection], theirs["id"]), ours["id"])

    def _learn(self, key: Key, second_id: str) -> None:
        """Take note of the id that the second side has for what the first one has."""
        ids = {self._second: second_id, self._second.other: key.id}
        self._state.learn_identity(key.kind, ids[Side.UPSTREAM], ids[Side.OURS])

    def _mark(self, objects: Iterable[Key], reason: str) -> None:
        objects = list(objects)
        self._marked_at.update(dict.fromkeys(objects, next(self._ticks)))
        self._state.mark(objects, reason)

    def _is_marked(self, objects: Iterable[Key]) -> bool:
        return any(key in self._state.marks for key in objects)

    @property
    def _second(self) -> Side:
        return self._state.mode.answering.other

    def _list_credentials(self) -> Headers:
        token = self._find_token()
        return (("X-Auth-Token", token),) if token else self._last_credentials


def adapt(request: Request, answer: Answer) -> Request:
    """Return a write as it is sent to the second side: with the uuid that the first one gave."""
    uuid = find_new_uuid(request, answer)
    body = parse_object(request.body)
    if uuid is None or body.get("uuid"):
        return request
    return request.replace_body(json.dumps({**body, "uuid": uuid}).encode())


def _describe(answer: Answer) -> str:
    """Return an answer in a line."""
    body = answer.body[:100].decode("utf-8", "replace")
    return " ".join(f"{answer.status} {body}".split())
