"""What clients asked for, what they were answered, and what that says of the objects."""

from __future__ import annotations

import dataclasses
import enum
import json
import pathlib
import threading
from collections.abc import Hashable
from typing import Any


class Outcome(enum.Enum):
    """What a client knows of a write: it happened, it did not, it may have."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def judge(status: int | None) -> Outcome:
    """Return what a status says of a write; None: there was no answer."""
    if status is None or status >= 500:
        return Outcome.UNKNOWN
    return Outcome.DONE if status < 400 else Outcome.REFUSED


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A request and what came of it.

    :ivar server: the port of the process that was asked.
    :ivar operation: what it was, such as ``claim``.
    :ivar status: None: no answer.
    :ivar began, ended: in seconds of one clock.
    :ivar retry_after: whether the answer said when to try again.
    :ivar tag: its entity tag.
    :ivar reason: what was said of a failure of the service; None: it did not fail.
    """

    client: str
    server: int
    operation: str
    status: int | None
    began: float
    ended: float
    retry_after: bool = False
    tag: str | None = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """An attempt to change an object, which only one client changes.

    :ivar name: of the object.
    :ivar value: what it becomes.
    :ivar guarded: whether the service refuses it if the object was changed since the client read
        it, so that it cannot take effect after a later write was acknowledged.
    :ivar together: names the writes that take effect at once or not at all.
    :ivar server: the port of the process that was asked, for whoever looks into a failure.
    """

    name: str
    value: Hashable
    began: float
    ended: float
    outcome: Outcome
    guarded: bool = True
    together: str | None = None
    server: int | None = None

    def __str__(self) -> str:
        """Return it in a few words."""
        return f"{self.outcome.value} write of {show(self.value)} {_describe(self)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What an object was, as the client saw that changes it.

    :ivar server: as of a write.
    :ivar tag: the entity tag of the answer; of a 304, what the tag stood for is the value.
    """

    name: str
    value: Hashable
    began: float
    ended: float
    server: int | None = None
    tag: str | None = None

    def __str__(self) -> str:
        """Return it in a few words."""
        return f"read of {show(self.value)} {_describe(self)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A number of an object that must not fall, such as a generation, as any client saw it."""

    name: str
    number: int
    began: float
    ended: float


Event = Write | Read | Version

#: Stands for a value that a client cannot know: an answer would have said what it is.
ANYTHING = "anything"

#: What a consumer has: {(provider, resource class, amount)}.
Held = frozenset[tuple[str, str, int]]


def show(value: Any) -> str:
    """Return a value of an object as it is printed."""
    return str(sorted(value)) if isinstance(value, frozenset) else repr(value)


def _describe(event: Write | Read) -> str:
    through = "" if event.server is None else f" through {event.server}"
    return f"from {event.began:.3f} to {event.ended:.3f}{through}"


class History:
    """Everything that all clients note. Thread-safe."""

    def __init__(self, path: pathlib.Path) -> None:
        """Note into a file, too, line by line, for whoever looks into a failure."""
        self.answers: list[Answer] = []
        self.events: list[Event] = []
        #: {consumer: project}
        self.projects: dict[str, str] = {}
        self._lock = threading.Lock()
        self._file = path.open("w")

    def note(self, *notes: Answer | Event) -> None:
        """Add notes; those of one client come in their order."""
        with self._lock:
            for note in notes:
                if isinstance(note, Answer):
                    self.answers.append(note)
                else:
                    self.events.append(note)
                self._file.write(json.dumps(
                    {"is": type(note).__name__, **dataclasses.asdict(note)}, default=_write,
                    sort_keys=True) + "\n")

    def close(self) -> None:
        """Write out what is noted."""
        with self._lock:
            self._file.close()


def _write(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    assert isinstance(value, frozenset)
    return sorted(value)
