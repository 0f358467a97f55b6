"""A map with a cell for each host.

Ten thousand cells are a path for each state, not an element for each cell: some 25 bytes a host.
The number in a cell is how many tenths of the host are in use: one text for each line of cells.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from placement_core.http.dashboard.pictures import elements, patterns

#: Cells in a line; the distance of their edges, and their size.
COLUMNS = 80
_PITCH, _CELL = 12, 11
#: States that are drawn as a pattern on the cell.
STATES = ("leased", "overcommitted", "disabled")
#: The most tenths: nine, or all of it.
_FULLEST = 9
_LEVEL = Markup('<path class="level-{level}" d="{path}"/>')
_STATE = Markup('<path class="pattern {state}" d="{path}" fill="{fill}"/>')
_LINE = Markup('<text class="tenths" x="{x}" y="{y}">{digits}</text>')


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a map, in its order, a line after the other.

    :ivar tenths: of each host: how many tenths of it are in use, from 0 to 9; 9: nine or more.
    :ivar states: {one of ``STATES``: the positions of the cells that have it}.
    """

    tenths: Sequence[int]
    states: Mapping[str, Sequence[int]]


def draw_host_map(picture_id: str, title: str, cells: Cells) -> Markup:
    """Return a map."""
    count = len(cells.tenths)
    numbers = ", ".join(
        [f"{count} hosts", *(f"{len(cells.states.get(state, ()))} {state}" for state in STATES),
         f"{sum(tenth == _FULLEST for tenth in cells.tenths)} nine tenths used or more"])
    lines = -(-count // COLUMNS)
    return elements.draw_frame(
        picture_id, "host-map", title, numbers, _draw(cells),
        width=min(count, COLUMNS) * _PITCH, height=lines * _PITCH)


def _draw(cells: Cells) -> Iterator[Markup]:
    outlines = _make_outlines(len(cells.tenths))
    by_level: dict[int, list[str]] = {}
    for tenth, outline in zip(cells.tenths, outlines, strict=True):
        by_level.setdefault(tenth, []).append(outline)
    for level, of_level in sorted(by_level.items()):
        yield _LEVEL.format(level=level, path=_join(of_level))
    for state in STATES:
        positions = cells.states.get(state, ())
        if len(positions):
            yield _STATE.format(state=state, fill=patterns.FILLS[state], path=_join(
                [outlines[position] for position in positions]))
    digits = "".join(map(str, cells.tenths))
    for line, start in enumerate(range(0, len(digits), COLUMNS)):
        in_line = digits[start:start + COLUMNS]
        yield _LINE.format(x=_list_places(len(in_line)), y=line * _PITCH + 9, digits=in_line)


def _join(outlines: Sequence[str]) -> Markup:
    """Return outlines as one path; there is nothing to escape in them."""
    return Markup("".join(outlines))  # noqa: S704 (made of numbers)


@functools.lru_cache(8)
def _make_outlines(count: int) -> list[str]:
    """Return the outline of each cell."""
    return [
        f"M{position % COLUMNS * _PITCH} {position // COLUMNS * _PITCH}"
        f"h{_CELL}v{_CELL}h-{_CELL}z" for position in range(count)]


@functools.lru_cache(COLUMNS)
def _list_places(count: int) -> Markup:
    """Return where the digits of a line stand."""
    return Markup(" ").join(str(column * _PITCH + 3) for column in range(count))
