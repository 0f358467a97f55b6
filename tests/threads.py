"""Threads that cannot be started."""

from __future__ import annotations

import threading

import fixtures


class NoThread(fixtures.Fixture):
    """The next thread cannot be started, as in a process that has as many as it may have."""

    def _setUp(self) -> None:
        start = threading.Thread.start
        threads: list[threading.Thread] = []

        def refuse_first(thread: threading.Thread) -> None:
            threads.append(thread)
            if len(threads) == 1:
                raise RuntimeError("can't start new thread")
            start(thread)

        self.useFixture(fixtures.MonkeyPatch("threading.Thread.start", refuse_first))
