"""A cache of the answers of a remote Keystone.

It holds the last answer to each request, also empty answers. After ``cache_seconds``, one thread
sends the request again, with If-None-Match if the answer had an entity tag. While Keystone cannot
be reached, a cached answer is used until it is ``max_stale_seconds`` old. After that, and without
a cached answer, the cache raises ``errors.Unavailable``; it never returns an empty answer instead.
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

#: Returns seconds since an arbitrary moment.
Clock = Callable[[], float]

#: The number of cached answers; the least recently used one is dropped first.
_MOST_ANSWERS = 10_000


class KeystoneUnreachable(errors.Unavailable):
    """Keystone does not answer, and there is no cached answer, or it is too old."""

    code = "placement.keystone.unreachable"


@dataclasses.dataclass(frozen=True, slots=True)
class FetchResult:
    """An answer of Keystone, and its entity tag for the next conditional request."""

    value: Any
    tag: str | None


class Outage(Exception):
    """There is no answer, or it is not Keystone's; the message says what happened."""


@dataclasses.dataclass(frozen=True, slots=True)
class _CachedAnswer:
    fetched: FetchResult
    #: When the request was sent; the answer may lack later changes.
    asked_at: float


class AnswerCache:
    """The last answer to each request.

    :param option: the name of the option ``max_stale_seconds``, for errors.
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
        """Return the cached answer to a request, or the one that ``fetch`` returns.

        If several threads ask for the same at once, one of them fetches.

        :param fetch: takes the entity tag of the cached answer, and returns None if that answer
            is still current. It raises ``Outage`` if Keystone does not answer.
        :raises errors.Unavailable: Keystone does not answer, and no cached answer is usable.
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
        """Return whether the cached answer can be used without a request to Keystone.

        An older answer is used, too, while another thread sends a request: in an outage any
        request, because one thread is enough to notice its end; otherwise this request, so that
        an answer which many threads need does not delay all of them when it expires.
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
        """Return the cached answer during an outage, unless it is too old."""
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
        """Suspend requests to Keystone for as long as the failed one took.

        If Keystone refuses connections, the next request follows at once and notices its
        recovery. If it hangs, requests block a thread for at most half of the time.
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
