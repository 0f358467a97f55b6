"""Answers that are kept, to be asked again only whether they still hold."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Hashable
from typing import Any

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


class Answers:
    """The answers that were used last, by question; for any number of threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start without any."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._by_question: collections.OrderedDict[Hashable, Answer] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: Hashable) -> Answer | None:
        """Return the answer that is kept."""
        with self._lock:
            found = self._by_question.get(question)
            if found is not None:
                self._by_question.move_to_end(question)
            return found

    def put(self, question: Hashable, answer: Answer) -> None:
        """Keep an answer; those that were not used for longest make room for it."""
        with self._lock:
            replaced = self._by_question.pop(question, None)
            self._bytes += answer.size - (replaced.size if replaced else 0)
            self._by_question[question] = answer
            while self._bytes > self._max_bytes:
                _, dropped = self._by_question.popitem(last=False)
                self._bytes -= dropped.size
