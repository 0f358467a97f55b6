"""How long what a count is made of took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Seconds(dict[str, float]):
    """{what was asked: how long it took together}."""

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Add the time that a block takes."""
        started = time.monotonic()
        try:
            yield
        finally:
            self[name] = self.get(name, 0.0) + time.monotonic() - started
