"""What the catalog room refuses.

:ivar kind: in most of them: ``region``, ``service``, ``endpoint``, ``domain`` or
    ``project``.
"""

from __future__ import annotations

from collections.abc import Sequence

from placement_core import errors


class NotInCatalog(errors.NotFound):
    """What the caller addressed does not exist."""

    code = "catalog.not_found"

    def __init__(self, kind: str, id_: str) -> None:
        super().__init__(f"Could not find {kind}: {id_}.")
        self.kind = kind
        self.id = id_


class UnknownReference(errors.Invalid):
    """Something that is to be written refers to what does not exist."""

    code = "catalog.unknown_reference"

    def __init__(self, kind: str, id_: str) -> None:
        super().__init__(f"There is no {kind} {id_}.")
        self.kind = kind
        self.id = id_


class InvalidValue(errors.Invalid):
    """A value that the catalog cannot keep.

    :ivar field: of the record.
    """

    code = "catalog.invalid_value"

    def __init__(self, kind: str, field: str, expected: str) -> None:
        super().__init__(f"The {field} of a {kind} must be {expected}.")
        self.kind = kind
        self.field = field


class Duplicate(errors.Conflict):
    """Another one has that id or name."""

    code = "catalog.duplicate"

    def __init__(self, kind: str, clash: str) -> None:
        super().__init__(f"Conflict occurred attempting to store {kind} - {clash} exists already.")
        self.kind = kind


class Misplaced(errors.Invalid):
    """A region or project cannot be below that parent."""

    code = "catalog.misplaced"

    def __init__(self, kind: str, id_: str, parent_id: str, reason: str) -> None:
        super().__init__(f"The {kind} {id_} cannot be below {parent_id}: {reason}.")
        self.kind = kind
        self.id = id_
        self.parent_id = parent_id


class TooDeep(errors.Forbidden):
    """The tree would have more levels than the enforcement model reads.

    :ivar depth: the levels that it would have, a domain being level 1.
    :ivar max_depth: how many may be.
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
    """A domain is disabled before it is removed."""

    code = "catalog.still_enabled"

    def __init__(self, domain_id: str) -> None:
        super().__init__(
            f"Cannot delete a domain that is enabled, please disable it first: {domain_id}.")
        self.domain_id = domain_id


class InUse(errors.Forbidden):
    """Something cannot be removed while others belong to it.

    :ivar users: what they are, for people.
    """

    code = "catalog.in_use"

    def __init__(self, kind: str, id_: str, users: str) -> None:
        super().__init__(f"Cannot delete the {kind} {id_}: it has {users}.")
        self.kind = kind
        self.id = id_
        self.users = users


class Ambiguous(errors.Invalid):
    """Several have the name by which one was meant.

    :ivar ids: theirs.
    """

    code = "catalog.ambiguous"

    def __init__(self, kind: str, called: str, ids: Sequence[str]) -> None:
        super().__init__(f"There are several {kind}s {called}: say which, {' or '.join(ids)}.")
        self.kind = kind
        self.called = called
        self.ids = tuple(ids)
