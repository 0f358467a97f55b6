"""The region of a row, which may be missing: a text, because NULLs are never duplicates."""

from __future__ import annotations

#: No region has this id, nor one of blanks, which is the same to MariaDB (see the catalog).
_NONE = ""


def key(region_id: str | None) -> str:
    """Return the column value of a region."""
    return _NONE if region_id is None else region_id


def id_(region_key: str) -> str | None:
    """Return the region of a column value."""
    return None if region_key == _NONE else region_key
