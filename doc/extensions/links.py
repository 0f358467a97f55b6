"""Links between documents, written as a reader of the plain files follows them.

```the API <../api.rst#errors>`_`` leads to a file and a section, here and on a page that shows
the repository. In the built documents it leads to the page that was made from the file.
"""

from __future__ import annotations

import pathlib
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from docutils.utils import get_source_line
from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
_SUFFIXES = (".rst", ".md")


def _resolve(app: Sphinx, node: nodes.reference, from_page: str) -> None:
    """Point a link to the page of the document that it names."""
    link = urlsplit(node["refuri"])
    # An included part of another file links relative to that file; docutils gives its path
    # relative to the working directory.
    source = pathlib.Path(get_source_line(node)[0] or "")
    if not source.is_file():
        source = pathlib.Path(app.env.doc2path(from_page))
    page = app.env.path2doc(str((source.parent / link.path).resolve()))
    if page not in app.env.all_docs:
        _LOG.warning("no document %s", node["refuri"], location=node)
        return
    if link.fragment and link.fragment not in app.env.get_doctree(page).ids:
        _LOG.warning("no such section: %s", node["refuri"], location=node)
    if app.builder.format == "man":
        # A manual has no other pages.
        node.replace_self(node.children)
        return
    anchor = f"#{link.fragment}" if link.fragment else ""
    node["refuri"] = app.builder.get_relative_uri(from_page, page) + anchor


def _resolve_links(app: Sphinx, tree: nodes.document, page: str) -> None:
    for node in list(tree.findall(nodes.reference)):
        link = urlsplit(node.get("refuri", ""))
        if not link.scheme and link.path.endswith(_SUFFIXES):
            _resolve(app, node, page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-resolved", _resolve_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
