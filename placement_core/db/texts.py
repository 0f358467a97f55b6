"""Which texts a database can keep."""

from __future__ import annotations


def is_storable(text: str) -> bool:
    """Say whether every database can keep and compare ``text``.

    PostgreSQL refuses NUL; no database takes half of a surrogate pair, which
    JSON can spell.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
