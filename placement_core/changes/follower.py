"""Keeps what a process made of the database as fresh as the database."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from placement_core.changes import vector
from placement_core.context import Context
from placement_core.db.database import Database

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """What was made of the database at one moment; immutable.

    :ivar vector: the moment, in the change log.
    """

    vector: vector.Vector
    value: T
    digest: tuple[int, int] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.vector.digest)


#: Makes the present version, from the one before or (None) from nothing.
Refresh = Callable[[Context, Version[T] | None], Version[T]]


class Follower(Generic[T]):
    """Hands out the present version; makes the first when it is first asked for.

    Any thread may ask; one refreshes while the others wait for it. A process
    that was forked begins anew.
    """

    def __init__(self, database: Database, refresh: Refresh[T]) -> None:
        self._database = database
        self._refresh = refresh
        self.forget()
        _FOLLOWERS.add(self)

    def forget(self) -> None:
        """Drop everything; the next question loads it again.

        Not for a thread that shares the follower with others: it renews the lock.
        """
        self._condition = threading.Condition()
        self._known: Version[T] | None = None
        self._refreshing = False
        self._started = 0
        self._finished = 0

    @property
    def known(self) -> Version[T] | None:
        """The newest version that was made, however old; None: there is none yet."""
        return self._known

    def present(self, ctx: Context) -> Version[T]:
        """Return a version with every change that was committed before the call.

        Asks the database one question in a statement of its own, never in the
        caller's transaction: what that has not committed is not in the version.

        :raises errors.Unavailable: the database does not answer.
        """
        started_before = self._started
        own = self.own_context(ctx)
        if self._known is None:
            return self._refreshed(own, None, started_before)
        digest = vector.read_digest(own)
        known = self._known
        if known is not None and known.digest == digest:
            return known
        return self._refreshed(own, digest, started_before)

    def renewed(self, ctx: Context) -> Version[T]:
        """Return the same for a caller who knows that something changed."""
        return self._refreshed(self.own_context(ctx), None, self._started)

    def own_context(self, ctx: Context) -> Context:
        """Return a context like the caller's, outside of its transaction."""
        return Context(self._database, ctx.identity, ctx.request_id)

    def _refreshed(
        self, ctx: Context, digest: tuple[int, int] | None, started_before: int
    ) -> Version[T]:
        """Refresh, or share a refresh that started after the caller came.

        :param digest: what the caller was told, if it asked; a version with just
            this digest will do, whenever its making started.
        :param started_before: how many had started when the caller came.
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
            fresh = self._refresh(ctx, known)
            with self._condition:
                self._known, self._finished = fresh, number
        finally:
            with self._condition:
                self._refreshing = False
                self._condition.notify_all()
        return fresh


_FOLLOWERS: weakref.WeakSet[Follower[Any]] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for follower in list(_FOLLOWERS):
        follower.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
