"""What is remembered of a remote Keystone's answers.

Of each question the last answer is kept, an empty one like any other. Keystone is asked
again only when that is ``cache_seconds`` old: once, with If-None-Match where the answer had a
tag. While Keystone cannot be reached, the cached answer serves until it is
``max_stale_seconds`` old. An answer that cannot be had is ``errors.Unavailable``, never "there
is none".
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from placement_core import errors
from placement_core.caches import BoundedCache

LOG = logging.getLogger(__name__)

#: Seconds from any moment on.
Clock = Callable[[], float]

#: Answers that are kept; the least recently used one goes first.
_MOST_ANSWERS = 10_000


class KeystoneUnreachable(errors.Unavailable):
    """Keystone does not answer, and what is known is too old, or nothing."""

    code = "placement.keystone.unreachable"


@dataclasses.dataclass(frozen=True, slots=True)
class FetchResult:
    """An answer of Keystone, and its entity tag for the next conditional request."""

    value: Any
    tag: str | None


class Outage(Exception):
    """Nothing answers, or not Keystone; the text says what happened."""


@dataclasses.dataclass(frozen=True, slots=True)
class _CachedAnswer:
    fetched: FetchResult
    #: When the question was sent: nothing is known about later moments.
    asked_at: float


class AnswerCache:
    """The last answer to each question.

    :param option: the name of the option ``max_stale_seconds``, for the sentence.
    """

    def __init__(
        self, cache_seconds: float, max_stale_seconds: float, *, option: str,
        clock: Clock = time.monotonic, most: int = _MOST_ANSWERS,
    ) -> None:
        self._cache_seconds = cache_seconds
        self._max_stale_seconds = max_stale_seconds
        self._option = option
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: BoundedCache[Hashable, _CachedAnswer] = BoundedCache(most)
        self._flights: dict[Hashable, concurrent.futures.Future[Any]] = {}
        self._outage: Outage | None = None
        self._rests_until = -math.inf

    def ask(self, question: Hashable, fetch: Callable[[str | None], FetchResult | None]) -> Any:
        """Return the answer to a question: the cached one, or what ``fetch`` brings.

        Of the threads that ask the same at once, one fetches.

        :param fetch: is handed the tag of the cached answer, and returns None when that one is
            still right. It raises ``Outage`` when Keystone does not answer.
        :raises errors.Unavailable: an outage, and the cached answer is too old.
        """
        with self._lock:
            now = self._clock()
            cached = self._answers.get(question)
            if cached is not None and self._is_good_enough(question, now - cached.asked_at):
                return cached.fetched.value
            if now < self._rests_until:
                return self._require_usable(cached)
            flight = self._flights.get(question)
            is_ours = flight is None
            if flight is None:
                flight = self._flights[question] = concurrent.futures.Future()
        if not is_ours:
            return flight.result()
        try:
            value = self._refresh(question, cached, fetch)
            flight.set_result(value)
            return value
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._flights[question]

    def _is_good_enough(self, question: Hashable, age: float) -> bool:
        """Say whether the cached answer does, so that Keystone need not be asked.

        An old one does while another thread asks: in an outage one thread is enough to
        find out when it ends, and otherwise an answer that is wanted all the time does
        not delay all threads whenever it gets old.
        """
        if age < self._cache_seconds:
            return True
        if self._outage is not None:
            return bool(self._flights) and age < self._max_stale_seconds
        return question in self._flights and age < 2 * self._cache_seconds

    def _refresh(
        self, question: Hashable, cached: _CachedAnswer | None,
        fetch: Callable[[str | None], FetchResult | None],
    ) -> Any:
        asked_at = self._clock()
        try:
            fetched = fetch(cached.fetched.tag if cached is not None else None)
        except Outage as outage:
            self._note_outage(outage, asked_at)
            return self._require_usable(cached)
        self._note_recovery()
        if fetched is None:
            assert cached is not None
            fetched = cached.fetched
        self._answers.put(question, _CachedAnswer(fetched, asked_at))
        return fetched.value

    def _require_usable(self, cached: _CachedAnswer | None) -> Any:
        """Return the cached answer in an outage, unless it is too old."""
        if cached is None:
            raise KeystoneUnreachable(
                "Keystone does not answer, and what it would say is not known."
            ) from self._outage
        age = self._clock() - cached.asked_at
        if age >= self._max_stale_seconds:
            raise KeystoneUnreachable(
                f"Keystone does not answer, and its last answer is {age:.0f} seconds old, more "
                f"than {self._option} = {self._max_stale_seconds} allows.") from self._outage
        return cached.fetched.value

    def _note_outage(self, outage: Outage, asked_at: float) -> None:
        """Let Keystone rest as long as it kept us waiting.

        One that refuses connections is asked again at once, so that its recovery shows
        at once; one that hangs holds a thread no more than half the time.
        """
        if self._outage is None:
            LOG.warning(
                "Keystone does not answer: %s. What is known of it serves until it is older "
                "than %s = %s", outage, self._option, self._max_stale_seconds)
        now = self._clock()
        self._outage = outage
        self._rests_until = 2 * now - asked_at

    def _note_recovery(self) -> None:
        if self._outage is not None:
            self._outage = None
            self._rests_until = -math.inf
            LOG.warning("Keystone answers again")
