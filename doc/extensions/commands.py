"""``.. commands::`` describes every command of ``placement-core``, by its parser."""

from __future__ import annotations

from typing import Any

from cliff import sphinxext
from docutils import nodes
from sphinx.application import Sphinx

from placement_core.cli import commands


class CommandsDirective(sphinxext.AutoprogramCliffDirective):
    """cliff's directive, with the commands of our table instead of entry points."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        """Return a section for each command; one with two names is described once."""
        self.env = self.state.document.settings.env
        names = {}
        for name, target in commands.COMMANDS.items():
            names.setdefault(target, name)
        classes = {name: commands.make_entry_point(name).load() for name in names.values()}
        return list(self._generate_command_nodes(classes, "placement-core"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("commands", CommandsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
