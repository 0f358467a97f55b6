"""Errors of the compute package."""

from __future__ import annotations

from placement_core import errors


class ComputeNodeNotFound(errors.NotFound):
    """No cell has a compute node with this uuid."""

    code = "compute.node.not_found"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"No compute node with uuid {uuid} found.")
        self.uuid = uuid


class NotMigratable(errors.Conflict):
    """A compute node cannot become a resource provider in its present state."""

    code = "compute.node.not_migratable"

    def __init__(self, title: str, cell: str, reason: str) -> None:
        super().__init__(f"Compute node {title} in cell {cell}: {reason}.")
        self.title, self.cell, self.reason = title, cell, reason


class DuplicateComputeNode(NotMigratable):
    """Two compute nodes have the same uuid."""

    code = "compute.node.duplicate"

    def __init__(self, title: str, cell: str, uuid: str, other: str, other_cell: str) -> None:
        super().__init__(
            title, cell, f"its uuid {uuid} is that of {other} in cell {other_cell}, too")
        self.uuid, self.other, self.other_cell = uuid, other, other_cell


class BadMarker(errors.Invalid):
    """No page of compute nodes ended with this marker."""

    code = "compute.node.marker"

    def __init__(self, marker: str) -> None:
        super().__init__(f"No page ended with {marker}.")
        self.marker = marker


class InvalidComputeNode(errors.Invalid):
    """A field of a compute node has an invalid value."""

    code = "compute.node.invalid"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"Invalid {field}: {reason}.")
        self.field = field


class CellsMissing(errors.Unavailable):
    """A compute node was not found, but some cells do not answer."""

    code = "compute.cells_missing"

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"Not known now: these cells are missing: {', '.join(names)}.")
        self.names = names
