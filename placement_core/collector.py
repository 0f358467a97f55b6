"""The garbage collector, while a great many objects are made that all stay: rows, modules."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Let the collector rest while a great many objects are made that all stay.

    It would look through all of them each time their number has grown by a
    quarter, and find nothing: a third of a load, and of a start.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def freeze_loaded() -> None:
    """Let the garbage collector pass over what a process has when it begins its work.

    All of that stays. Walking through it again and again took half of the time of a large
    answer, and a third of that of events.
    """
    gc.freeze()
