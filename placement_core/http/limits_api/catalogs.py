"""What the views of the catalog share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from placement_core import errors

T = TypeVar("T")

#: Clients send them empty, and they are not stored.
_NOT_STORED = ("tags", "options", "is_domain")


class Missing(errors.NotFound):
    """The catalog does not have what the path names."""

    def __init__(self, what: str, id_: str) -> None:
        super().__init__(f"Could not find {what}: {id_}.")
        self.what = what
        self.id = id_


def require_found(what: str, id_: str, record: T | None) -> T:
    """Return a record of a catalog driver.

    :raises Missing: there is none.
    """
    if record is None:
        raise Missing(what, id_)
    return record


def parse_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a body changes; a description of null is an empty one."""
    return {
        name: "" if name == "description" and value is None else value
        for name, value in body.items() if name not in _NOT_STORED}
