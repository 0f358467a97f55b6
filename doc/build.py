"""Make HTML of the documents, into build/docs: ``make docs``."""

from __future__ import annotations

import pathlib
import sys

from docutils import core
from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = [ROOT / "README.rst", *sorted((ROOT / "doc").glob("*.rst")),
           *sorted((ROOT / "doc").glob("*.md"))]


def html(source: pathlib.Path) -> str:
    """Return a document as HTML; links to other documents lead to theirs.

    :raises docutils.utils.SystemMessage: the source has a mistake.
    """
    if source.suffix == ".md":
        return MarkdownIt("commonmark").enable("table").render(source.read_text())
    made = core.publish_string(
        source.read_text(),
        source_path=str(source),
        writer="html5",
        settings_overrides={
            "halt_level": 2,
            "report_level": 2,
            "output_encoding": "unicode",
            "syntax_highlight": "none",
        },
    )
    return str(made).replace(".rst\"", ".html\"").replace(".md\"", ".html\"").replace(
        "href=\"doc/", "href=\"")


def main() -> int:
    """Write every document."""
    target = ROOT / "build" / "docs"
    target.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        (target / source.with_suffix(".html").name).write_text(html(source))
    print(f"{target / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
