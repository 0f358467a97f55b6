"""What the views of the catalog have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from placement_core import errors

T = TypeVar("T")

#: Clients send them empty: there is nothing to keep.
_NOT_KEPT = ("tags", "options", "is_domain")


class Missing(errors.NotFound):
    """The catalog does not have what the address names."""

    def __init__(self, what: str, id_: str) -> None:
        super().__init__(f"Could not find {what}: {id_}.")
        self.what = what
        self.id = id_


def require_found(what: str, id_: str, found: T | None) -> T:
    """Return what a catalog driver found.

    :raises Missing: it found nothing.
    """
    if found is None:
        raise Missing(what, id_)
    return found


def parse_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a body changes; a description of null is an empty one."""
    return {
        name: "" if name == "description" and value is None else value
        for name, value in given.items() if name not in _NOT_KEPT}
