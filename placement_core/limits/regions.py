"""How a region that may be missing is kept: nulls are not unique to a database."""

from __future__ import annotations

#: No region has this id (catalog: 1 to 255 characters).
_NONE = ""


def key(region_id: str | None) -> str:
    """Return what a row holds for a region."""
    return _NONE if region_id is None else region_id


def id_(region_key: str) -> str | None:
    """Return the region that a row means."""
    return None if region_key == _NONE else region_key
