"""Patterns that tell kinds of amounts and states of hosts apart without colour.

``draw_patterns`` stands once in each page that has pictures. A picture draws a shape twice: with
the class that has its colour, and with the pattern on top.
"""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

#: {name: what the pattern draws, in a square of 8 pixels}.
_SHAPES: Mapping[str, str] = {
    "hatch": "M-2 10L10-2M-2 2L2-2M6 10L10 6",
    "dots": "M1 2h2M5 6h2",
    "cross": "M0 0L8 8M8 0L0 8",
}
#: {kind or state: its pattern}; those that are left out are plain.
_BY_KIND: Mapping[str, str] = {
    "below": "dots", "held": "hatch", "promised": "dots", "reserved": "cross", "over": "cross",
    "leased": "hatch", "overcommitted": "dots", "disabled": "cross",
    "pending": "hatch", "error": "cross", "ended": "dots",
}
#: {kind or state: the ``fill`` that draws its pattern}.
FILLS: Mapping[str, str] = {kind: f"url(#{name})" for kind, name in _BY_KIND.items()}
_PATTERN = Markup(
    '<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<path class="stroke" d="{shape}"/></pattern>')
_DEFINITIONS = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" class="defs" width="0" height="0"'
    ' aria-hidden="true" focusable="false"><defs>{patterns}</defs></svg>')
_OVERLAY = Markup(
    '<rect class="pattern" x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>')


def draw_patterns() -> Markup:
    """Return the definitions that all pictures of a page refer to."""
    return _DEFINITIONS.format(patterns=Markup("").join(
        _PATTERN.format(name=name, shape=shape) for name, shape in _SHAPES.items()))


def draw_overlay(kind: str, **place: str | int) -> Markup:
    """Return the pattern of a kind on top of a rectangle; nothing where it is plain.

    :param place: ``x``, ``y``, ``width`` and ``height`` of the rectangle.
    """
    fill = FILLS.get(kind)
    return Markup("") if fill is None else _OVERLAY.format(fill=fill, **place)
