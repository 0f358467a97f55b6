"""The caller of a request or command, its database and its transaction."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The enforcer library uses contexts to call drivers, without the database's dependencies.
    from placement_core.db.database import Database
    from placement_core.db.session import Session


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """The caller as authentication established it.

    :ivar user_name: with ``project_name``, for people to read; None: not known.
    """

    user_id: str | None = None
    project_id: str | None = None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    domain_id: str | None = None
    user_domain_id: str | None = None
    project_domain_id: str | None = None
    user_name: str | None = None
    project_name: str | None = None


@dataclasses.dataclass(slots=True)
class Context:
    """One unit of work: its caller, its database and its open transaction.

    A context belongs to one thread and one request (or one command); the
    functions of the domain rooms take it as their first argument.

    :ivar operation: what the caller does: method and path of the operation, a command, a task.
    :ivar session: the transaction that ``db.write`` or ``db.read`` opened;
        inner calls join it.
    """

    database: Database
    identity: Identity = Identity()
    request_id: str | None = None
    session: Session | None = None
    operation: str | None = None
