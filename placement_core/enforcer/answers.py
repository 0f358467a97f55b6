"""A cache of answers, which are revalidated by their entity tags."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Hashable
from typing import Any

from placement_core.caches import BoundedCache

#: The total size of the cached texts, in bytes; parsed, they take about three times as much.
MAX_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer about limits.

    :ivar value: the parsed answer; never modified.
    :ivar etag: None: the answer cannot be revalidated, only fetched again.
    :ivar asked_at: the time on the monotonic clock before the request was sent.
    :ivar size: the size of its text, in bytes.
    """

    value: Any
    etag: str | None
    asked_at: float
    size: int


class CachedAnswers(BoundedCache[Hashable, CachedAnswer]):
    """The answers that were used last, by request."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Create an empty cache."""
        super().__init__(max_bytes, size=operator.attrgetter("size"))
