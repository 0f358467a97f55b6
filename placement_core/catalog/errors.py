"""Errors of the catalog.

Most of them have an attribute ``kind``: ``region``, ``service``, ``endpoint``, ``domain`` or
``project``.
"""

from __future__ import annotations

from collections.abc import Sequence

from placement_core import errors


class NotInCatalog(errors.NotFound):
    """The requested record does not exist."""

    code = "catalog.not_found"

    def __init__(self, kind: str, id_: str) -> None:
        super().__init__(f"Could not find {kind}: {id_}.")
        self.kind = kind
        self.id = id_


class UnknownReference(errors.Invalid):
    """A request refers to a record that does not exist."""

    code = "catalog.unknown_reference"

    def __init__(self, kind: str, id_: str) -> None:
        super().__init__(f"There is no {kind} {id_}.")
        self.kind = kind
        self.id = id_


class InvalidValue(errors.Invalid):
    """A field has a value that the catalog cannot store.

    :ivar field: the name of the field.
    """

    code = "catalog.invalid_value"

    def __init__(self, kind: str, field: str, expected: str) -> None:
        super().__init__(f"The {field} of a {kind} must be {expected}.")
        self.kind = kind
        self.field = field


class Duplicate(errors.Conflict):
    """Another record has the same id or name."""

    code = "catalog.duplicate"

    def __init__(self, kind: str, clash: str) -> None:
        super().__init__(f"Conflict occurred attempting to store {kind} - {clash} exists already.")
        self.kind = kind


class Misplaced(errors.Invalid):
    """A region or project cannot have this parent."""

    code = "catalog.misplaced"

    def __init__(self, kind: str, id_: str, parent_id: str, reason: str) -> None:
        super().__init__(f"The {kind} {id_} cannot be below {parent_id}: {reason}.")
        self.kind = kind
        self.id = id_
        self.parent_id = parent_id


class TooDeep(errors.Forbidden):
    """A tree would have more levels than the enforcement model allows.

    :ivar depth: the number of levels that it would have; a domain is level 1.
    :ivar max_depth: the number of levels allowed.
    """

    code = "catalog.too_deep"

    def __init__(self, parent_id: str, depth: int, max_depth: int) -> None:
        super().__init__(
            f"Max hierarchy depth reached for {parent_id} branch: there would be {depth} levels "
            f"of projects, their domain included; the enforcement model allows {max_depth}.")
        self.parent_id = parent_id
        self.depth = depth
        self.max_depth = max_depth


class StillEnabled(errors.Forbidden):
    """A domain cannot be deleted while it is enabled."""

    code = "catalog.still_enabled"

    def __init__(self, domain_id: str) -> None:
        super().__init__(
            f"Cannot delete a domain that is enabled, please disable it first: {domain_id}.")
        self.domain_id = domain_id


class InUse(errors.Forbidden):
    """A record cannot be deleted while other records belong to it.

    :ivar users: a description of those records, for the message.
    """

    code = "catalog.in_use"

    def __init__(self, kind: str, id_: str, users: str) -> None:
        super().__init__(f"Cannot delete the {kind} {id_}: it has {users}.")
        self.kind = kind
        self.id = id_
        self.users = users


class Ambiguous(errors.Invalid):
    """Several records match a name.

    :ivar called: the name.
    :ivar ids: the ids of the records.
    """

    code = "catalog.ambiguous"

    def __init__(self, kind: str, called: str, ids: Sequence[str]) -> None:
        super().__init__(f"There are several {kind}s {called}: say which, {' or '.join(ids)}.")
        self.kind = kind
        self.called = called
        self.ids = tuple(ids)
