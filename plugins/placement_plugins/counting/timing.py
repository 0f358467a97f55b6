"""How long the queries of a count took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Seconds(dict[str, float]):
    """{source: total seconds}."""

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Add the time that a block takes to a source."""
        started = time.monotonic()
        try:
            yield
        finally:
            self[name] = self.get(name, 0.0) + time.monotonic() - started
