"""Which texts a database can keep, and which it takes for equal."""

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


def strip_padding(dialect: str, text: str) -> str:
    """Return what stands for all texts that a database takes for equal to ``text``.

    MySQL ignores blanks at the end of names. What has nothing else is one blank.
    """
    return text.rstrip(" ") or text[:1] if dialect == "mysql" else text


def make_storable(text: str, longest: int) -> str:
    """Return ``text`` as every database can keep it, for people to read.

    NUL and halves of surrogate pairs become escape sequences.

    :param longest: how many characters of it are returned at most.
    """
    return text.replace("\0", r"\x00").encode(errors="backslashreplace").decode()[:longest]
