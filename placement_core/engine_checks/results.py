"""What a check says."""

from __future__ import annotations

import dataclasses
import enum


class Status(enum.Enum):
    """The result of a check; the value is its name for people and programs."""

    OK = "ok"
    #: The engine works, with a limitation.
    WARNING = "warning"
    #: The engine breaks the contract.
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What became of one check.

    :ivar name: of the check.
    :ivar rule: what the engine has to do, in one sentence.
    :ivar details: what a limitation means, or what was expected and what was seen instead;
        empty where there is nothing to say.
    """

    name: str
    rule: str
    status: Status
    details: str = ""


class Limited(Exception):
    """The engine works, with a limitation: the text says what it means."""


class Broken(Exception):
    """The engine breaks the contract."""

    def __init__(self, expected: object, seen: object) -> None:
        super().__init__(f"expected {expected}; seen: {seen}")


def require(expected: object, seen: object, what: str) -> None:
    """Compare what was seen with what was expected.

    :param what: what the two are of.
    :raises Broken: they differ.
    """
    if expected != seen:
        raise Broken(f"{what}: {expected}", seen)
