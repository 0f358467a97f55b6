"""``.. rooms:: NAME`` draws the layers of a contract in ``.importlinter``, and lists its rooms.

The picture is SVG inside of the page: it has the colours of the theme, and its boxes are links to
the list.
"""

from __future__ import annotations

import ast
import configparser
import html
import math
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).parents[2]
CONTRACTS = ROOT / ".importlinter"

#: Sizes in the units of the picture, which is as wide as a telephone: all can be read there.
_WIDTH = 480
_BOX_HEIGHT = 30
_GAP = 10
_MOST_IN_A_ROW = 3


class Layer(NamedTuple):
    """Rooms of one height.

    :ivar apart: they never import each other.
    """

    rooms: list[str]
    apart: bool


def read_layers(contract: str) -> tuple[str, list[Layer]]:
    """Return the package that a contract is about, and its layers from the top.

    Rooms that are planned only are left out.
    """
    parser = configparser.ConfigParser()
    parser.read_string(CONTRACTS.read_text())
    section = parser[f"importlinter:contract:{contract}"]
    package = section["containers"].strip()
    layers = []
    for line in section["layers"].split("\n"):
        names = [name.strip(" ()") for name in re.split("[|:]", line) if name.strip()]
        rooms = [name for name in names if _find_source(package, name)]
        if rooms:
            layers.append(Layer(rooms, apart="|" in line))
    return package, layers


def _find_source(package: str, room: str) -> pathlib.Path | None:
    folder = ROOT / package.replace(".", "/")
    sources = (folder / room / "__init__.py", folder / f"{room}.py")
    return next((source for source in sources if source.exists()), None)


def _read_summary(package: str, room: str) -> str:
    """Return the first paragraph of a room's docstring.

    :raises ValueError: it has none, and the page nothing to say.
    """
    source = _find_source(package, room)
    docstring = source and ast.get_docstring(ast.parse(source.read_text()))
    if not docstring:
        raise ValueError(f"{package}.{room} has no docstring")
    return docstring.partition("\n\n")[0].replace("\n", " ")


def _make_anchor(package: str, room: str) -> str:
    return nodes.make_id(f"{package}-{room}")


def _draw_box(x: float, y: int, width: float, package: str, room: str) -> str:
    summary = html.escape(_read_summary(package, room))
    return (
        f'<a href="#{_make_anchor(package, room)}"><title>{summary}</title>'
        f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{_BOX_HEIGHT}" rx="5"/>'
        f'<text x="{x + width / 2:g}" y="{y + _BOX_HEIGHT * 0.66:g}">{room}</text></a>')


def _draw_row(package: str, rooms: list[str], y: int, *, apart: bool) -> Iterator[str]:
    width = (_WIDTH - _GAP * (len(rooms) - 1)) / len(rooms)
    for number, room in enumerate(rooms):
        x = number * (width + _GAP)
        yield _draw_box(x, y, width, package, room)
        if apart and number:
            yield f'<path d="M{x - _GAP / 2:g} {y}v{_BOX_HEIGHT}"/>'


def _split_into_rows(rooms: list[str]) -> Iterator[list[str]]:
    """Split the rooms of a layer evenly."""
    count = math.ceil(len(rooms) / _MOST_IN_A_ROW)
    for row in range(count):
        yield rooms[len(rooms) * row // count:len(rooms) * (row + 1) // count]


def draw(package: str, layers: list[Layer]) -> str:
    """Return the picture: a row of boxes for each layer, several where there are many."""
    parts = []
    y = 0
    for layer in layers:
        for rooms in _split_into_rows(layer.rooms):
            parts.extend(_draw_row(package, rooms, y, apart=layer.apart))
            y += _BOX_HEIGHT + 2
        y += _GAP
    return (f'<svg class="rooms" viewBox="0 0 {_WIDTH} {y - _GAP}" role="img" '
            f'aria-label="The layers of {package}, from the top">{"".join(parts)}</svg>')


class RoomsDirective(SphinxDirective):
    """The picture of a contract's layers, and what lives in each room."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the picture and the list."""
        package, layers = read_layers(self.arguments[0])
        self.env.note_dependency(str(CONTRACTS))
        listing = nodes.definition_list()
        for layer in layers:
            listing.extend(self._describe(package, room) for room in layer.rooms)
        return [nodes.raw("", draw(package, layers), format="html"), listing]

    def _describe(self, package: str, room: str) -> nodes.definition_list_item:
        term = nodes.term("", "", nodes.literal("", room), ids=[_make_anchor(package, room)])
        summary, messages = self.parse_inline(_read_summary(package, room))
        paragraph = nodes.paragraph("", "", *summary)
        return nodes.definition_list_item(
            "", term, nodes.definition("", paragraph, *messages))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("rooms", RoomsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
