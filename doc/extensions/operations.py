"""``.. operations:: NAME`` lists every operation of an API, by the rows of its routes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from placement_core.app import APIS
from placement_core.http.apis import Api
from placement_core.http.operations import Operation


def _describe_view(operation: Operation) -> str:
    """Return the first sentence of the docstring of the operation's view."""
    return (inspect.getdoc(operation.view) or "").partition("\n")[0]


def _describe_caller(operation: Operation) -> str:
    if operation.policy is None:
        return "no rule: every caller may"
    return ", ".join(f"``{rule}``" for rule in (operation.policy, *operation.also))


def _write(api: Api, operation: Operation) -> Iterator[str]:
    """Write a row as an item of a definition list."""
    yield f"``{operation.method} {api.prefix}{operation.path}``"
    yield f"    {_describe_view(operation)}"
    yield ""
    yield f"    :Policy: {_describe_caller(operation)}"
    if api.versions is not None and operation.since > api.versions.lowest:
        yield f"    :Since: {operation.since[0]}.{operation.since[1]}"
    yield ""


class OperationsDirective(SphinxDirective):
    """A definition list of the operations of one API."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the list, in the order of the routes."""
        api = next(api for api in APIS if api.name == self.arguments[0])
        lines = StringList()
        for operation in api.operations:
            for line in _write(api, operation):
                lines.append(line, f"<operations of {api.name}>")
        return self.parse_text_to_nodes(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("operations", OperationsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
