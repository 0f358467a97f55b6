"""The garbage collector, while a great many objects are made that all stay: rows, modules."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Let the collector rest while a great many objects are made that all stay.

    It would look through all of them each time their number has grown by a
    quarter, and find nothing: a third of a load.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
