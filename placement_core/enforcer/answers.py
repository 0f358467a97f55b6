"""Answers that are kept, to be asked again only whether they still hold."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Hashable
from typing import Any

from placement_core.caches import BoundedCache

#: Their texts together; in memory they are some three times as large.
MAX_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What somebody answered.

    :ivar value: what was read from it; nobody changes it.
    :ivar etag: None: it cannot be asked about, only asked for again.
    :ivar asked_at: on the monotonic clock, before the request was sent.
    :ivar size: of its text, in bytes.
    """

    value: Any
    etag: str | None
    asked_at: float
    size: int


class Answers(BoundedCache[Hashable, Answer]):
    """The answers that were used last, by question."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start without any."""
        super().__init__(max_bytes, size=operator.attrgetter("size"))
