"""What is wrong with a question about room."""

from __future__ import annotations

from placement_core import errors


class NoShapes(errors.Conflict):
    """No usual request is configured, so nothing says which room is of use."""

    code = "room.no_shapes"

    def __init__(self) -> None:
        super().__init__(
            "No usual request is configured: set [least_stranded] shape in placement.conf, once "
            "for each, such as shape = VCPU:4,MEMORY_MB:8192.")
