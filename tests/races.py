"""Running two or more real transactions against each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

#: How long a thread may take before a test calls it stuck.
_PATIENCE_SECONDS = 60


def run(*functions: Callable[[], Any]) -> list[Any]:
    """Start every function at the same moment, each in a thread of its own.

    :returns: what each returned, or the exception it raised, in order.
    """
    barrier = threading.Barrier(len(functions))
    outcomes: list[Any] = [None] * len(functions)

    def play(position: int, function: Callable[[], Any]) -> None:
        barrier.wait(_PATIENCE_SECONDS)
        try:
            outcomes[position] = function()
        except Exception as error:  # the test looks at what it was
            outcomes[position] = error

    threads = [threading.Thread(target=play, args=item, daemon=True)
               for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_SECONDS)
        if thread.is_alive():
            raise AssertionError("a racing thread is stuck")
    return outcomes


class Paused:
    """A function that runs in a thread and waits in the middle of its transaction.

    ``with Paused(function) as paused:`` returns once the function called
    ``paused.here()`` (or ended); leaving the block lets it go on and waits for
    its end. ``outcome`` is what it returned or raised.
    """

    def __init__(self, function: Callable[[Paused], Any]) -> None:
        self.outcome: Any = None
        self._function = function
        self._arrived = threading.Event()
        self._go_on = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def here(self) -> None:
        """Wait until the test lets this thread go on; only the first call waits."""
        if not self._arrived.is_set():
            self._arrived.set()
            self._go_on.wait(_PATIENCE_SECONDS)

    def go_on(self) -> None:
        """Let the thread go on, and wait for its end."""
        self._go_on.set()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():
            raise AssertionError("a paused thread is stuck")

    def release(self) -> None:
        """Let the thread go on without waiting for it."""
        self._go_on.set()

    def _play(self) -> None:
        try:
            self.outcome = self._function(self)
        except Exception as error:  # the test looks at what it was
            self.outcome = error
        finally:
            self._arrived.set()

    def __enter__(self) -> Paused:
        self._thread.start()
        if not self._arrived.wait(_PATIENCE_SECONDS):
            raise AssertionError("a thread did not come to its pause")
        return self

    def __exit__(self, *_exception: object) -> None:
        self.go_on()
