"""Cache of answers, which are revalidated by their entity tags."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Hashable
from typing import Any

from placement_core.caches import BoundedCache

#: The sum of their texts; in memory they are some three times as large.
MAX_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer about limits.

    :ivar value: what was parsed from it; never modified.
    :ivar etag: None: it cannot be revalidated, only fetched again.
    :ivar asked_at: on the monotonic clock, before the request was sent.
    :ivar size: of its text, in bytes.
    """

    value: Any
    etag: str | None
    asked_at: float
    size: int


class CachedAnswers(BoundedCache[Hashable, CachedAnswer]):
    """The answers that were used last, by question."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Begin empty."""
        super().__init__(max_bytes, size=operator.attrgetter("size"))
