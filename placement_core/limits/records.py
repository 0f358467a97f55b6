"""Records that the functions of this room return, and the filters of lists.

Values of limits are spelled as in the APIs: integers, -1 for "unlimited"
(``amounts.from_wire`` converts them). ``region_id`` None is a value of its own:
the limit of a service that has no regions.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Literal

#: How a value is compared. The i-variants ignore case.
Operator = Literal[
    "equals", "contains", "startswith", "endswith",
    "iequals", "icontains", "istartswith", "iendswith",
]

Kind = Literal["registered_limit", "limit", "user_limit"]
Action = Literal["created", "updated", "deleted"]


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredLimit:
    """A resource of a service, and the default limit of projects."""

    id: str
    service_id: str
    region_id: str | None
    resource_name: str
    default_limit: int
    description: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a project or a domain; exactly one of the two ids is not None."""

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
    """The limit of one user in a project."""

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
    """A change of a limit of any kind, in the history.

    :ivar id: rises with every change; the marker of a page.
    :ivar limit_id: the id of the limit, which may be deleted.
    :ivar old_value: None: the limit was created.
    :ivar new_value: None: the limit was deleted.
    :ivar by_user_id: the caller's user, with ``by_project_id`` and ``request_id``;
        None without a caller (a command).
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
    """A condition on a field of listed limits.

    :ivar field: ``service_id``, ``region_id``, ``resource_name``; of limits also
        ``project_id`` and ``domain_id``; of users' limits ``project_id`` and ``user_id``.
    :ivar value: None, with ``region_id`` and ``equals`` only: limits without a region.
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
