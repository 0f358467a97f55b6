"""A horizontal bar of parts that follow each other: used, held, promised, free, reserved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from placement_core.http.dashboard.pictures import elements, patterns

_HEIGHT = 20
_PART = Markup('<rect class="part {kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')
_LIMIT = Markup('<line class="limit" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')


@dataclasses.dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar.

    :ivar kind: ``used``, ``below``, ``held``, ``promised``, ``free``, ``reserved`` or ``over``:
        the class and the pattern that it has.
    :ivar amount: 0 or more.
    """

    kind: str
    amount: int


def draw_bar(
    picture_id: str, title: str, parts: Sequence[BarPart], *, limit: int | None = None,
) -> Markup:
    """Return a bar, as wide as the sum of its parts or as the limit, whatever is more.

    :param parts: from left to right.
    :param limit: an amount at which a line is drawn.
    """
    width = max(sum(part.amount for part in parts), limit or 0)
    numbers = [f"{part.kind} {part.amount}" for part in parts if part.amount]
    numbers += [] if limit is None else [f"limit {limit}"]
    return elements.draw_frame(
        picture_id, "bar", title, ", ".join(numbers) or "nothing", _draw(parts, width, limit),
        height=_HEIGHT)


def _draw(parts: Sequence[BarPart], whole: int, limit: int | None) -> Iterator[Markup]:
    before = 0
    for part in parts:
        if part.amount:
            x, width = (elements.format_percent(amount, whole) for amount in (before, part.amount))
            yield _PART.format(kind=part.kind, x=x, y=0, width=width, height=_HEIGHT)
            yield patterns.draw_overlay(part.kind, x=x, y=0, width=width, height=_HEIGHT)
        before += part.amount
    if limit is not None:
        yield _LIMIT.format(x=elements.format_percent(limit, whole), height=_HEIGHT)
