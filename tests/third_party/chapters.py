"""What the guide for authors of drivers says, chapter by chapter."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re

from placement_core.cli import plugin_packages

FOLDER = pathlib.Path(__file__).parents[2] / "doc" / "drivers"


@dataclasses.dataclass(frozen=True)
class Chapter:
    """The example of a chapter.

    :ivar name: of the driver.
    :ivar shown: the files that the chapter shows.
    :ivar files: all files of the package, which the chapter says how to write.
    :ivar errors: the lines that the chapter says a reader may meet.
    """

    kind: str
    name: str
    shown: frozenset[str]
    files: dict[str, str]
    errors: frozenset[str]

    @property
    def module(self) -> str:
        """The module of the driver, which is the group of its options, too."""
        return self.distribution.replace("-", "_")

    @property
    def distribution(self) -> str:
        """How pip calls the package."""
        return plugin_packages.name_distribution(self.kind, self.name)


@functools.cache
def read(kind: str) -> Chapter:
    """Read the chapter of a kind of drivers."""
    text = (FOLDER / f"{kind}.rst").read_text()
    (found_kind, name), = re.findall(r"\$ placement-core plugins new (\S+) (\S+)\n", text)
    shown = re.findall(rf"^\.\. plugin-file:: {kind} {name} (\S+)$", text, re.MULTILINE)
    section = text.partition("\nWhat errors look like\n")[2]
    errors = re.findall(r"^    (\S.*(?:\n    .+)*)", section, re.MULTILINE)
    return Chapter(
        found_kind, name, frozenset(shown), plugin_packages.render(found_kind, name),
        frozenset(" ".join(error.split()) for error in errors))
