"""The operator's guide explains all that a report of a migration can say."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Sequence

from tests import base

_ROOT = pathlib.Path(__file__).parents[2]
_ROOM = _ROOT / "placement_core" / "takeover"
_PAGE = _ROOT / "doc" / "operator" / "migration.rst"

#: What stands for a value, in the page as well.
_VALUE = "…"
_LETTERS = re.compile(r"[a-z]{2}")
#: With fewer words, a text is a name, and no sentence.
_FEWEST_WORDS = 3
_SQL = re.compile(r"[A-Z]{2,} ")


class _TextCollector(ast.NodeVisitor):
    """Collects the texts of a module, with ``_VALUE`` for what is filled in.

    :ivar texts: in their order, without docstrings.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.texts.append("".join(
            str(part.value) if isinstance(part, ast.Constant) else _VALUE
            for part in node.values))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)


def _list_sentences(module: pathlib.Path) -> list[str]:
    """Return what a module may say to people, with ``_VALUE`` for values."""
    collector = _TextCollector()
    collector.visit(ast.parse(module.read_text()))
    return [text.strip() for text in collector.texts if _is_sentence(text)]


def _is_sentence(text: str) -> bool:
    words = [word for word in text.split() if _LETTERS.search(word)]
    return len(words) >= _FEWEST_WORDS and not _SQL.match(text)


def _is_quoted(sentence: str, quotations: Sequence[str]) -> bool:
    """Return whether a page quotes a sentence; it may say more than ``_VALUE`` for a value."""
    pattern = re.compile(".*".join(map(re.escape, sentence.split(_VALUE))))
    return any(pattern.search(quotation) for quotation in quotations)


class TestReportLines(base.TestCase):
    def test_each_is_explained(self) -> None:
        quotations = [" ".join(quotation.split()) for quotation in re.findall(
            "``(.+?)``", _PAGE.read_text(), flags=re.DOTALL)]
        unexplained = [
            (module.name, sentence) for module in sorted(_ROOM.rglob("*.py"))
            for sentence in _list_sentences(module) if not _is_quoted(sentence, quotations)]
        self.assertEqual([], unexplained)

    def test_sentences_are_found(self) -> None:
        """Those with values, those in a table, and those of errors."""
        for name, sentence in (
                ("keystone.py", "its … … was deleted"),
                ("nova_cells.py", "which host is in which cell is read in the databases of the "
                 "cells"),
                ("errors.py", "The … cannot be written: something here has the same key.")):
            self.assertIn(sentence, _list_sentences(_ROOM / name))
