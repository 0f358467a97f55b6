"""A funnel: how many remain after each step, 1500, then 420, then 3, then none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from placement_core.http.dashboard.pictures import elements

#: How high a step is, and the space below it.
_STEP, _GAP = 22, 4
_BAR = Markup(
    '<rect class="left{none}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    '<text class="label middle" x="50%" y="{baseline}" text-anchor="middle">{left}</text>')


@dataclasses.dataclass(frozen=True, slots=True)
class FunnelStep:
    """A step of a funnel.

    :ivar label: what the step asks for.
    :ivar left: how many remain after it.
    """

    label: str
    left: int


def draw_funnel(picture_id: str, title: str, steps: Sequence[FunnelStep]) -> Markup:
    """Return a funnel, a bar in the middle for each step, as wide as what remains.

    :param steps: the first one has what there is in all.
    """
    description = "; ".join(f"{step.label}: {step.left}" for step in steps) or "no steps"
    return elements.draw_frame(
        picture_id, "funnel-bars", title, description, _draw(steps),
        height=len(steps) * (_STEP + _GAP))


def _draw(steps: Sequence[FunnelStep]) -> Iterator[Markup]:
    widest = max((step.left for step in steps), default=0)
    for number, step in enumerate(steps):
        y = number * (_STEP + _GAP)
        yield _BAR.format(
            none="" if step.left else " none", y=y, height=_STEP, baseline=y + 16, left=step.left,
            x=elements.format_percent(widest - step.left, 2 * widest),
            width=elements.format_percent(step.left, widest))
