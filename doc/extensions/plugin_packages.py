"""``.. plugin-file:: KIND NAME FILE`` shows a file that ``placement-core plugins new`` writes."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.directives.code import container_wrapper
from sphinx.util.docutils import SphinxDirective

from placement_core.cli import plugin_packages

_LANGUAGES = {"py": "python", "toml": "toml", "rst": "rst", "sample": "ini"}


class PluginFileDirective(SphinxDirective):
    """The text of the file, with its name above it."""

    required_arguments = 3

    def run(self) -> list[nodes.Node]:
        """Return the text as code that can be copied."""
        kind, name, file_name = self.arguments
        text = plugin_packages.render(kind, name)[file_name]
        block = nodes.literal_block(text, text)
        block["language"] = _LANGUAGES[file_name.rpartition(".")[2]]
        return [container_wrapper(self, block, file_name)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("plugin-file", PluginFileDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
