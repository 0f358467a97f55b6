"""What the limits room refuses, in the words that clients of Keystone know.

Source: spec limits §2, "Status codes".
"""

from __future__ import annotations

from placement_core import errors


class RegisteredLimitNotFound(errors.NotFound):
    """The registered limit in the address does not exist."""

    code = "limits.registered_limit.not_found"

    def __init__(self, id_: str) -> None:
        super().__init__(f"Could not find registered limit for {id_}.")
        self.id = id_


class LimitNotFound(errors.NotFound):
    """The limit in the URL does not exist."""

    code = "limits.limit.not_found"

    def __init__(self, id_: str) -> None:
        super().__init__(f"Could not find limit for {id_}.")
        self.id = id_


class UserLimitNotFound(errors.NotFound):
    """The user limit in the URL does not exist."""

    code = "limits.user_limit.not_found"

    def __init__(self, id_: str) -> None:
        super().__init__(f"Could not find user limit for {id_}.")
        self.id = id_


class InvalidLimit(errors.Invalid):
    """A field of a limit is invalid."""

    code = "limits.invalid"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"Invalid input for field {field}: {reason}.")
        self.field = field
        self.reason = reason


class UnknownLimitReference(errors.Invalid):
    """A limit names something that does not exist.

    :ivar what: ``service``, ``region``, ``project`` or ``domain``.
    """

    code = "limits.unknown_reference"

    def __init__(self, what: str, id_: str) -> None:
        super().__init__(f"Expecting to find {what} {id_} of a limit: it does not exist.")
        self.what = what
        self.id = id_


class UnknownMarker(errors.Invalid):
    """The marker of a page is not in the list."""

    code = "limits.unknown_marker"

    def __init__(self, marker: str | int) -> None:
        super().__init__(f"The marker {marker} does not name anything to go on from.")
        self.marker = marker


class NoRegisteredLimit(errors.Forbidden):
    """A limit for a resource that its service never registered in that region."""

    code = "limits.not_registered"

    def __init__(self, service_id: str, region_id: str | None, resource_name: str) -> None:
        region = f"in region {region_id}" if region_id is not None else "without a region"
        super().__init__(
            "Unable to create a limit that has no corresponding registered limit: "
            f"service {service_id} registered no {resource_name} {region}.")
        self.service_id = service_id
        self.region_id = region_id
        self.resource_name = resource_name


class RegisteredLimitInUse(errors.Forbidden):
    """A registered limit cannot be changed or deleted while limits refer to it."""

    code = "limits.registered_limit.in_use"

    def __init__(self, id_: str) -> None:
        super().__init__(
            f"Unable to update or delete registered limit {id_} because there are project "
            "limits associated with it.")
        self.id = id_


class DuplicateLimit(errors.Conflict):
    """The limit exists already, or is in the request twice.

    :ivar kind: ``registered_limit``, ``limit`` or ``user_limit``.
    """

    code = "limits.duplicate"

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(
            f"Conflict occurred attempting to store {kind} - Duplicate entry"
            f"{f': {detail}' if detail else ''}.")
        self.kind = kind


class HierarchyClash(errors.Forbidden):
    """A limit conflicts with another limit of its tree.

    :ivar node_id: the project or domain whose limit is too high, or lower than limits
        below it.
    :ivar value: its limit, as the APIs spell it; None: it has the default only.
    :ivar other_id: the node with the other limit; None: the registered default.
    :ivar other_value: the other limit.
    :ivar reason: the sentence of the enforcement model.
    """

    code = "limits.hierarchy"

    def __init__(
        self, *, resource_name: str, service_id: str, region_id: str | None,
        node_id: str, value: int | None, other_id: str | None, other_value: int | None,
        reason: str,
    ) -> None:
        super().__init__(
            f"Invalid resource limit: The resource limit (project_id: {node_id}, "
            f"resource_name: {resource_name}, resource_limit: {value}, "
            f"service_id: {service_id}, region_id: {region_id}) doesn't satisfy current "
            f"hierarchy model: {reason}")
        self.resource_name = resource_name
        self.service_id = service_id
        self.region_id = region_id
        self.node_id = node_id
        self.value = value
        self.other_id = other_id
        self.other_value = other_value
        self.reason = reason
