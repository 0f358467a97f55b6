"""What all pictures are made of: numbers and texts of SVG, and the frame around a picture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from markupsafe import Markup

_FRAME = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" id="{id}" class="{name}"'
    ' role="{role}" aria-labelledby="{id}-title {id}-desc"{size}>'
    '<title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>'
    '{body}</svg>')
_FLUID = Markup(' width="100%" height="{height}"')
_SCALED = Markup(' viewBox="0 0 {width} {height}"')
#: What stands for characters that XML cannot hold.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def draw_frame(
    picture_id: str, name: str, title: str, description: str, body: Iterable[Markup], *,
    height: int, width: int | None = None, role: str = "img",
) -> Markup:
    """Return a picture.

    :param picture_id: its id, which no other element of the page has.
    :param name: which kind of picture it is, its class.
    :param title: what it shows; ``description``: its numbers, for those who do not see it.
    :param height: in pixels. The picture is as wide as its place.
    :param width: in pixels; it is scaled with the height then (the class ``drawing``).
    :param role: ``group`` for a picture with links: an image hides what is in it.
    """
    return _FRAME.format(
        id=picture_id, name=name if width is None else f"drawing {name}", role=role,
        title=clean(title), description=clean(description), body=Markup("").join(body),
        size=(_FLUID if width is None else _SCALED).format(width=width, height=height))


def clean(text: str) -> str:
    """Return a text without characters that no document may contain."""
    if text.isprintable():
        return text
    return "".join(character if _is_allowed(character) else _REPLACEMENT for character in text)


def make_key(text: str) -> str:
    """Return what an id may have in place of a text, such as the id of a project."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def format_percent(part: float, whole: float) -> str:
    """Return a part of something in percent, as attributes of SVG have it; 0 of nothing."""
    return f"{100 * part / whole:.2f}%" if whole > 0 else "0%"


def _is_allowed(character: str) -> bool:
    code = ord(character)
    return (character in "\t\n\r" or 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800
            or 0xE000 <= code < 0xFFFE or code >= 0x10000)
