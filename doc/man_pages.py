"""``python -m doc.man_pages FOLDER``: a man page for each command, from its parser.

Pages are named as git names its own: ``placement-core-limits-set.1`` for ``placement-core limits
set``. ``make docs`` writes them beside those that Sphinx makes of documents.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

from argparse_manpage import manpage

from placement_core.cli import commands, main

_PROGRAM = "placement-core"
_SECTION = 1
#: The beginning of a line of text that the formatter would take for a request.
_TEXT_LIKE_REQUESTS = r"^(?=['.])(?!\.(?:TH|SH|SS|TP|PP|B|nf|fi)\b)"


def list_pages() -> dict[str, str]:
    """Return the name of each page, and the command that it is about."""
    return {f"{_PROGRAM}-{name.replace(' ', '-')}.{_SECTION}": name for name in commands.COMMANDS}


def make_page(name: str) -> str:
    """Return the page of a command."""
    command = commands.make_entry_point(name).load()(main.PlacementCore(), None, cmd_name=name)
    parser: argparse.ArgumentParser = command.get_parser(f"{_PROGRAM} {name}")
    page = manpage.Manpage(parser, format="single-commands-section")
    page.prog = f"{_PROGRAM}-{name.replace(' ', '-')}"  # the synopsis has blanks, as one types it
    page.description = commands.read_summary(name)
    page.source = f"{_PROGRAM} {main.get_version()}"
    page.manual = "Commands of the capacity service"
    return re.sub(_TEXT_LIKE_REQUESTS, r"\\&", str(page), flags=re.MULTILINE)


def write_pages(folder: pathlib.Path) -> None:
    """Write all pages into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for page, name in list_pages().items():
        (folder / page).write_text(make_page(name), encoding="utf-8")


if __name__ == "__main__":
    write_pages(pathlib.Path(sys.argv[1]))
