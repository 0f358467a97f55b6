"""What the functions of this room return, and how lists are asked for.

Values of limits are as the APIs spell them: integers, -1 for "no bound"
(``amounts.from_wire`` says what they mean). ``region_id`` None is a value of its own:
the limit of a service that has no regions.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Literal

#: How a value is compared. The i-variants do not tell a from A.
Operator = Literal[
    "equals", "contains", "startswith", "endswith",
    "iequals", "icontains", "istartswith", "iendswith",
]

Kind = Literal["registered_limit", "limit", "user_limit"]
Action = Literal["created", "updated", "deleted"]


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredLimit:
    """A resource of a service, and what a project may use of it by default."""

    id: str
    service_id: str
    region_id: str | None
    resource_name: str
    default_limit: int
    description: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """What was set for a project or a domain; exactly one of the two is given."""

    id: str
    project_id: str | None
    domain_id: str | None
    service_id: str
    region_id: str | None
    resource_name: str
    resource_limit: int
    description: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class UserLimit:
    """What was set for one user in a project."""

    id: str
    project_id: str
    user_id: str
    service_id: str
    region_id: str | None
    resource_name: str
    resource_limit: int
    description: str | None = None


AnyLimit = RegisteredLimit | Limit | UserLimit


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change of a limit of any kind: who, when, from what to what.

    :ivar id: rises with every change; a page's marker.
    :ivar limit_id: the limit's id, which may be gone.
    :ivar old_value: None: it was made.
    :ivar new_value: None: it was deleted.
    :ivar by_user_id: who asked, likewise ``by_project_id`` and ``request_id``;
        None where nobody said (a command).
    """

    id: int
    at: datetime.datetime
    action: Action
    kind: Kind
    limit_id: str
    service_id: str
    region_id: str | None
    resource_name: str
    project_id: str | None
    domain_id: str | None
    user_id: str | None
    old_value: int | None
    new_value: int | None
    by_user_id: str | None
    by_project_id: str | None
    request_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """What a field of a listed limit has to be.

    :ivar field: ``service_id``, ``region_id``, ``resource_name``; of limits also
        ``project_id`` and ``domain_id``; of users' limits ``project_id`` and ``user_id``.
    :ivar value: None, with ``region_id`` and ``equals`` only: those without a region.
    """

    field: str
    operator: Operator
    value: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A limit that refers to something which no longer exists.

    :ivar missing: what is gone: ``service``, ``region``, ``project`` or ``domain``.
    :ivar missing_id: its id.
    """

    kind: Kind
    limit_id: str
    service_id: str
    region_id: str | None
    resource_name: str
    project_id: str | None
    domain_id: str | None
    user_id: str | None
    missing: str
    missing_id: str
