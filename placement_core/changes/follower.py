"""Keeps data that a process derived from the database up to date with it."""

from __future__ import annotations

import dataclasses
import datetime
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from placement_core import forks, metrics, tracing
from placement_core.changes import vector
from placement_core.context import Context
from placement_core.db.database import Database

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """Data derived from the database at one moment. Immutable.

    :ivar vector: the position of that moment in the change log.
    :ivar made_at: when the version was made, by this machine's clock; aware UTC.
    """

    vector: vector.Vector
    value: T
    digest: tuple[int, int] = dataclasses.field(init=False)
    made_at: datetime.datetime = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.vector.digest)
        object.__setattr__(self, "made_at", datetime.datetime.now(datetime.UTC))


#: Makes the current version from the previous one, or (None) from the whole database.
Refresh = Callable[[Context, Version[T] | None], Version[T]]


class Follower(Generic[T]):
    """Returns the current version, which is made on first use. Thread-safe.

    One thread refreshes it while the others wait. A forked process starts without a version.

    :param name: of what is derived, for the metrics.
    :ivar failing_since: the monotonic time of the first call of ``present`` that failed, if none
        has succeeded since.
    """

    def __init__(self, database: Database, refresh: Refresh[T], name: str) -> None:
        self._database = database
        self._refresh = refresh
        self._name = name
        self.forget()
        forks.call_in_child(self, Follower.forget)

    def forget(self) -> None:
        """Drop the version; the next call loads it again.

        Not thread-safe, because it replaces the lock.
        """
        self._condition = threading.Condition()
        self.failing_since: float | None = None
        self._known: Version[T] | None = None
        self._refreshing = False
        self._started = 0
        self._finished = 0

    @property
    def known(self) -> Version[T] | None:
        """Return the newest version, however old; None: there is none yet."""
        return self._known

    def present(self, ctx: Context) -> Version[T]:
        """Return a version with every change that was committed before the call.

        It takes one statement of its own, never in the caller's transaction: uncommitted
        changes of the caller are not in the version.

        :raises errors.Unavailable: the database does not answer.
        """
        try:
            version = self._find_present(ctx)
        except Exception:
            self.failing_since = self.failing_since or time.monotonic()
            raise
        self.failing_since = None
        return version

    def _find_present(self, ctx: Context) -> Version[T]:
        started_before = self._started
        own = self.own_context(ctx)
        if self._known is None:
            return self._share_refresh(own, None, started_before)
        digest = vector.read_digest(own)
        known = self._known
        if known is not None and known.digest == digest:
            return known
        return self._share_refresh(own, digest, started_before)

    def renewed(self, ctx: Context) -> Version[T]:
        """Return the same, for a caller that knows that something changed."""
        return self._share_refresh(self.own_context(ctx), None, self._started)

    def own_context(self, ctx: Context) -> Context:
        """Return a copy of the caller's context without its transaction."""
        return Context(self._database, ctx.identity, ctx.request_id)

    def _share_refresh(
        self, ctx: Context, digest: tuple[int, int] | None, started_before: int
    ) -> Version[T]:
        """Refresh the version, or wait for a refresh that started after the call.

        :param digest: the digest that the caller read, or None; a version with this digest
            is current, whenever its refresh started.
        :param started_before: how many refreshes had started at the time of the call.
        """
        with self._condition:
            while True:
                known = self._known
                if known is not None and (
                        known.digest == digest or self._finished > started_before):
                    return known
                if not self._refreshing:
                    break
                self._condition.wait()
            self._refreshing = True
            self._started += 1
            number = self._started
        try:
            fresh = self._refresh_measured(ctx, known)
            with self._condition:
                self._known, self._finished = fresh, number
        finally:
            with self._condition:
                self._refreshing = False
                self._condition.notify_all()
        return fresh

    def _refresh_measured(self, ctx: Context, known: Version[T] | None) -> Version[T]:
        started = time.perf_counter()
        try:
            with tracing.span("index refresh", attributes={
                    "placement_core.index": self._name,
                    "placement_core.refresh": "load" if known is None else "update"}):
                fresh = self._refresh(ctx, known)
        except Exception:
            metrics.count_failed_index_refresh(self._name)
            raise
        metrics.observe_index_refresh(
            self._name, "load" if known is None else "update", time.perf_counter() - started)
        return fresh
