"""The names of static files."""

from __future__ import annotations

import pathlib

import fixtures

from placement_core.http.dashboard.static_files import StaticFiles
from tests import base


class TestStaticFiles(base.TestCase):
    def make(self, **contents: str) -> StaticFiles:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name, content in contents.items():
            (folder / name.replace("_", ".")).write_text(content)
        return StaticFiles(folder)

    def test_a_name_follows_from_the_content(self) -> None:
        first, second = self.make(a_js="1"), self.make(a_js="2")
        self.assertRegex(first.names["a.js"], r"^a\.[0-9a-f]{16}\.js$")
        self.assertNotEqual(first.names, second.names)
        self.assertEqual(first.names, self.make(a_js="1").names)

    def test_references(self) -> None:
        """A file refers to others by their names, so that its own changes with theirs."""
        files = self.make(
            a_js='import { b } from "./b.js";', b_js='import x from "./c.js"; // "./nothing"',
            c_js="1", d_css="x { background: url('./e.svg') }", e_svg="<svg/>", README_md="no")
        self.assertEqual({"a.js", "b.js", "c.js", "d.css", "e.svg"}, files.names.keys())
        for name, other in (("a.js", "b.js"), ("b.js", "c.js"), ("d.css", "e.svg")):
            self.assertIn(
                f"./{files.names[other]}".encode(), files.contents[files.names[name]])
        changed = self.make(
            a_js='import { b } from "./b.js";', b_js='import x from "./c.js"; // "./nothing"',
            c_js="2")
        self.assertNotEqual(files.names["a.js"], changed.names["a.js"])

    def test_a_circle(self) -> None:
        self.assertRaises(
            ValueError, self.make, a_js='import "./b.js"', b_js='import "./a.js"')

    def test_what_is_not_there(self) -> None:
        self.assertRaises(FileNotFoundError, self.make, a_js='import "./b.js"')
