"""Errors of the cells package."""

from __future__ import annotations

from placement_core import errors


class CellNotFound(errors.NotFound):
    """The requested cell does not exist."""

    code = "cells.not_found"

    def __init__(self, cell: str) -> None:
        super().__init__(f"There is no cell of uuid or name {cell}.")
        self.cell = cell


class AmbiguousCell(errors.Conflict):
    """Several cells have the same name, which nova allows."""

    code = "cells.ambiguous"

    def __init__(self, name: str, uuids: list[str]) -> None:
        super().__init__(
            f"Several cells are called {name}: {', '.join(uuids)}. Name one by its uuid.")
        self.uuids = uuids


class InvalidCell(errors.Invalid):
    """A field of a cell mapping has an invalid value."""

    code = "cells.invalid"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"Invalid input for field {field}: {reason}.")
        self.field = field


class DuplicateCell(errors.Conflict):
    """Another cell has the same uuid, name or database.

    :ivar field: the name of the field that is not unique.
    """

    code = "cells.duplicate"

    def __init__(self, field: str, cell: str) -> None:
        super().__init__(f"The cell {cell} has that {field} already.")
        self.field = field


class CellInUse(errors.Conflict):
    """Instances, or hosts in nova's database, are mapped to the cell."""

    code = "cells.in_use"

    def __init__(self, cell: str) -> None:
        super().__init__(
            f"The cell {cell} cannot be removed: instances or hosts are mapped to it.")


class UnknownCell(errors.Invalid):
    """A request names a cell that does not exist."""

    code = "cells.unknown"

    def __init__(self, cell: str) -> None:
        super().__init__(f"There is no cell of uuid or name {cell}.")
        self.cell = cell


class InstanceNotFound(errors.NotFound):
    """The requested instance is not registered."""

    code = "instances.not_found"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"There is no instance {uuid}.")
        self.uuid = uuid


class InvalidInstance(errors.Invalid):
    """A field of an instance has an invalid value."""

    code = "instances.invalid"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"Invalid input for field {field}: {reason}.")
        self.field = field


class DuplicateInstance(errors.Conflict):
    """The instance is already registered with other contents."""

    code = "instances.duplicate"

    def __init__(self, uuid: str) -> None:
        super().__init__(
            f"The instance {uuid} is registered already, with another project, user or cell, "
            "or it is deleted.")
        self.uuid = uuid


class UnknownInstanceMarker(errors.Invalid):
    """The marker of a list is an instance that is not registered."""

    code = "instances.unknown_marker"

    def __init__(self, marker: str) -> None:
        super().__init__(f"There is no instance {marker} to go on after.")
        self.marker = marker


class UnknownServerGroup(errors.Invalid):
    """A request names a server group that does not exist in the project."""

    code = "cells.server_group.unknown"

    def __init__(self, group: str, project_id: str) -> None:
        super().__init__(f"The project {project_id} has no server group of uuid or name {group}.")
        self.group = group


class AmbiguousServerGroup(errors.Invalid):
    """Several server groups of the project have the same name, which nova allows."""

    code = "cells.server_group.ambiguous"

    def __init__(self, group: str, uuids: list[str]) -> None:
        super().__init__(
            f"Several server groups are called {group}: {', '.join(uuids)}. Name one by its "
            "uuid.")
        self.uuids = uuids


class UnreadableServerGroups(errors.Unavailable):
    """The tables of server groups in nova's API database cannot be read."""

    code = "cells.server_group.unreadable"

    def __init__(self, database: str, reason: str) -> None:
        super().__init__(
            f"The server groups in {database} cannot be read ({reason}): the service needs SELECT "
            "on instance_groups and instance_group_member there.")


class ServerGroupNotFound(errors.NotFound):
    """The requested server group does not exist."""

    code = "cells.server_group.not_found"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"There is no server group {uuid}.")
        self.uuid = uuid


class DuplicateServerGroup(errors.Conflict):
    """A server group of this uuid exists already.

    :ivar uuid: its uuid; of several new ones, the first.
    """

    code = "cells.server_group.duplicate"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"There is a server group {uuid} already.")
        self.uuid = uuid


class KeptByNova(errors.Conflict):
    """Nova's database has the mappings, and nova purges those of deleted instances itself."""

    code = "instances.kept_by_nova"

    def __init__(self) -> None:
        super().__init__(
            "The instance mappings are in nova's API database ([api_database] connection): "
            "`nova-manage db archive_deleted_rows` removes those of deleted instances.")
