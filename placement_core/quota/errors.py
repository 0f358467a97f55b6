"""What can be wrong with a question about quota."""

from __future__ import annotations

from placement_core import errors


class UnknownResource(errors.Invalid):
    """Nothing that is counted goes by this name."""

    code = "quota.resource.unknown"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No usage is counted for {name}: expected class: and the name of a resource class.")
        self.name = name
