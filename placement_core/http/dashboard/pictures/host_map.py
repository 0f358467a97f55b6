"""A map with a cell for each host.

Ten thousand cells are a path for each state, not an element for each cell: some 25 bytes a host.
The number in a cell is how many tenths of the host are in use: one text for each line of cells.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from placement_core.http.dashboard.pictures import elements, patterns

#: Cells in a line; the distance of their edges, and their size.
COLUMNS = 80
_PITCH, _CELL = 12, 11
#: The height of the name of a group, with the gap above it; and how long a name may be, so that
#: it is not wider than a line of cells.
_HEADING, _LONGEST_NAME = 20, 120
#: States that are drawn as a pattern on the cell.
STATES = ("leased", "overcommitted", "disabled")
#: The most tenths: nine, or all of it.
_FULLEST = 9
_LEVEL = Markup('<path class="level-{level}" d="{path}"/>')
_STATE = Markup('<path class="pattern {state}" d="{path}" fill="{fill}"/>')
_LINE = Markup('<text class="tenths" x="{x}" y="{y}">{digits}</text>')
_NAME = Markup('<text class="group-name" x="0" y="{y}">{name}</text>')


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a map, in its order, a line after the other.

    :ivar tenths: of each host: how many tenths of it are in use, from 0 to 9; 9: nine or more.
    :ivar states: {one of ``STATES``: the positions of the cells that have it}.
    :ivar groups: (name, number of cells) of each group, in the same order: a group begins a line
        of its own, below its name. Empty: they are not in groups.
    """

    tenths: Sequence[int]
    states: Mapping[str, Sequence[int]]
    groups: Sequence[tuple[str, int]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Where cells are, which depends only on how many there are in each group.

    :ivar outlines: of each cell, a path.
    :ivar lines: (y, position of the first cell, position after the last one) of each line.
    :ivar headings: the y of the first line of each group.
    """

    outlines: Sequence[str]
    lines: Sequence[tuple[int, int, int]]
    headings: Sequence[int]
    height: int


def draw_host_map(picture_id: str, title: str, cells: Cells) -> Markup:
    """Return a map."""
    count = len(cells.tenths)
    numbers = ", ".join(
        [f"{count} hosts", *([f"{len(cells.groups)} groups"] if cells.groups else []),
         *(f"{len(cells.states.get(state, ()))} {state}" for state in STATES),
         f"{sum(tenth == _FULLEST for tenth in cells.tenths)} nine tenths used or more"])
    layout = _lay_out(
        tuple(size for _, size in cells.groups) or (count,), _HEADING if cells.groups else 0)
    return elements.draw_frame(
        picture_id, "host-map", title, numbers, _draw(cells, layout),
        width=min(count, COLUMNS) * _PITCH, height=layout.height)


def _draw(cells: Cells, layout: _Layout) -> Iterator[Markup]:
    by_level: dict[int, list[str]] = {}
    for tenth, outline in zip(cells.tenths, layout.outlines, strict=True):
        by_level.setdefault(tenth, []).append(outline)
    for level, of_level in sorted(by_level.items()):
        yield _LEVEL.format(level=level, path=_join(of_level))
    for state in STATES:
        positions = cells.states.get(state, ())
        if len(positions):
            yield _STATE.format(state=state, fill=patterns.FILLS[state], path=_join(
                [layout.outlines[position] for position in positions]))
    digits = "".join(map(str, cells.tenths))
    for y, start, end in layout.lines:
        yield _LINE.format(x=_list_places(end - start), y=y + 9, digits=digits[start:end])
    for (name, _), y in zip(cells.groups, layout.headings, strict=False):
        yield _NAME.format(y=y - 4, name=elements.clean(_shorten(name)))


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME - 1]}…"


def _join(outlines: Sequence[str]) -> Markup:
    """Return outlines as one path; there is nothing to escape in them."""
    return Markup("".join(outlines))  # noqa: S704 (made of numbers)


@functools.lru_cache(8)
def _lay_out(sizes: tuple[int, ...], heading: int) -> _Layout:
    """Return where the cells of groups of some sizes are.

    :param heading: how much is left free above each group.
    """
    lines: list[tuple[int, int, int]] = []
    headings = []
    y = start = 0
    for size in sizes:
        y += heading
        headings.append(y)
        for first in range(start, start + size, COLUMNS):
            lines.append((y, first, min(first + COLUMNS, start + size)))
            y += _PITCH
        start += size
    outlines = list(itertools.chain.from_iterable(
        _outline_cells(top, end - first) for top, first, end in lines))
    return _Layout(outlines, lines, headings, y)


@functools.lru_cache(256)
def _outline_cells(top: int, count: int) -> Sequence[str]:
    """Return the outlines of the cells of a line: most stay as they are when a host comes."""
    return [f"M{column * _PITCH} {top}h{_CELL}v{_CELL}h-{_CELL}z" for column in range(count)]


@functools.lru_cache(COLUMNS)
def _list_places(count: int) -> Markup:
    """Return where the digits of a line stand."""
    return Markup(" ").join(str(column * _PITCH + 3) for column in range(count))
