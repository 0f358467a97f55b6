"""What the feed tells: changes, and answers of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from placement_core.feed.tokens import Token


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """An object that changed, as it is at the answer's revision.

    :ivar kind: the name of a kind in ``kinds``.
    :ivar id: the uuid; of what is known by its name, or by its project, that.
    :ivar project_id: the project that owns it, or owned it; None: none does.
    :ivar record: the object; None: it does not exist any more or, for a reader of one project,
        it belongs to another one.
    """

    kind: str
    id: str
    name: str | None = None
    project_id: str | None = None
    record: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """What a reader wants to know.

    :ivar kinds: the names of the kinds.
    :ivar project_id: only what this project owns, or owned before; None: everything.
    """

    kinds: Collection[str]
    project_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What changed behind a token, or a page of everything.

    :ivar revision: the number of transactions in the log when the answer was read. It never falls
        from one answer to the next.
    :ivar more: whether there was more when it was read.
    :ivar txns: the transactions that made the changes, as the audit names them; none of a page of
        everything.
    """

    changes: Sequence[Change]
    token: Token
    revision: int
    more: bool
    txns: Collection[int] = ()

    @property
    def digest(self) -> tuple[int, int]:
        """Return what ``vector.read_digest`` returned, if there was nothing more."""
        position = self.token.position
        return position.revision, position.digest
