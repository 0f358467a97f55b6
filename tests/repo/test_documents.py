"""The documents can be built, and speak of everything there is."""

from __future__ import annotations

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import fixtures
import yaml
from docutils import nodes

from doc import screenshots
from doc.extensions import rooms
from placement_core import app, conf
from placement_core.cli import commands
from placement_core.conf import namespaces
from placement_core.http.capacity_api.api import API as CAPACITY
from placement_core.http.leases_api.api import API as RESERVATIONS
from placement_core.http.limits_api.api import API as LIMITS
from placement_core.http.placement_api import routes
from placement_core.migrations import all_tables
from tests import base

_RENO_SECTIONS = {
    "prelude", "features", "issues", "upgrade", "deprecations", "critical", "security", "fixes",
    "other",
}


_ROOT = pathlib.Path(__file__).parents[2]
_NOTES = sorted((_ROOT / "releasenotes" / "notes").iterdir())


def _read_text(page: pathlib.Path) -> str:
    """Return what a reader sees of a page of HTML, as one line."""
    text = re.sub(r"</?(?:a|code|em|span|strong)\b[^>]*>", "", page.read_text())
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


class TestBuiltDocuments(base.TestCase):
    """What ``make docs`` makes."""

    folder: pathlib.Path
    warnings: str

    @classmethod
    def setUpClass(cls) -> None:
        """Build HTML and man pages, once for all tests."""
        super().setUpClass()
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.warnings = "".join(cls._build(builder) for builder in ("html", "man"))

    @classmethod
    def _build(cls, builder: str) -> str:
        """Run Sphinx as the Makefile does; return what it warned of."""
        return subprocess.run(
            [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going",
             "--doctree-dir", cls.folder / "doctrees", "--builder", builder,
             "doc", cls.folder / builder],
            cwd=_ROOT, capture_output=True, text=True, check=False).stderr

    def _read_page(self, name: str) -> str:
        return _read_text(self.folder / "html" / f"{name}.html")

    def test_no_warnings(self) -> None:
        """No mistake in a document, and no link that leads nowhere."""
        self.assertEqual("", self.warnings)

    def test_nothing_is_fetched(self) -> None:
        """No page needs the network."""
        for page in (self.folder / "html").rglob("*.html"):
            fetched = re.findall(r"<(?:script|link|img|iframe)[^>]+\"(?:https?:)?//[^>]+>",
                                 page.read_text())
            self.assertEqual([], fetched, page)

    def test_screenshots(self) -> None:
        """Each is shown, says what it shows, and is small."""
        files = {path.stem: path for path in screenshots.FOLDER.iterdir()}
        self.assertEqual({each.name for each in screenshots.SCREENSHOTS}, set(files))
        page = (self.folder / "html" / "dashboard.html").read_text()
        for name, path in files.items():
            self.assertLess(path.stat().st_size, screenshots.MOST_BYTES)
            self.assertRegex(page, f'<img alt="[^"]{{20,}}" src="_images/{name}.png"')

    def test_every_page_can_be_reached(self) -> None:
        """The navigation of the first page leads to each document."""
        index = (self.folder / "html" / "index.html").read_text()
        for document in (_ROOT / "doc").rglob("*"):
            name = document.relative_to(_ROOT / "doc").with_suffix(".html").as_posix()
            if document.suffix in (".rst", ".md") and name != "index.html":
                self.assertIn(f'href="{name}"', index)

    def test_options(self) -> None:
        """The reference has each option of each group, those of libraries, too."""
        page = (self.folder / "html" / "reference" / "configuration.html").read_text()
        for group, options in namespaces.load_options().groups.items():
            self.assertIn(f'id="{group}"', page)
            for option in options:
                self.assertIn(f'id="{group}.{option.dest}"', page)

    def test_policy_rules(self) -> None:
        """The reference has each rule."""
        page = self._read_page("reference/policy")
        for rule in app.list_rules():
            self.assertIn(f"{rule.name} Default", page)

    def test_commands(self) -> None:
        """The reference, and the man page, have the usage of each command."""
        page = self._read_page("reference/cli")
        manual = (self.folder / "man" / "placement-core.1").read_text().replace("\\-", "-")
        for name in commands.COMMANDS:
            for text in (page, manual):
                self.assertIn(f"placement-core {name}", text)
        self.assertIn("placement-core leases timeline [-", page)

    def test_manuals(self) -> None:
        """They have no links to pages that a manual does not have."""
        manuals = sorted(page.name for page in (self.folder / "man").iterdir())
        self.assertEqual(
            ["placement-core.1", "placement-policy.yaml.5", "placement.conf.5"], manuals)
        for manual in manuals:
            self.assertNotIn("<>", (self.folder / "man" / manual).read_text())

    def test_operations(self) -> None:
        """The reference has each operation of each API, with its policy rule."""
        page = self._read_page("reference/operations")
        for api in app.APIS:
            for operation in api.operations:
                summary = (operation.view.__doc__ or "").partition("\n")[0].replace("``", "")
                self.assertIn(
                    f"{operation.method} {api.prefix}{operation.path} {summary} "
                    f"Policy: {operation.policy or 'no rule'}", page)

    def test_release_notes(self) -> None:
        """The page has the longest piece of plain text of each note that git knows."""
        page = self._read_page("releasenotes")
        self.assertGreater(len(_NOTES), 0)
        for note in _NOTES:
            pieces = re.split(r"[`*:\n]|- \|", note.read_text())
            self.assertIn(" ".join(max(pieces, key=len).split()), page, note.name)

    def test_rooms(self) -> None:
        """The picture has a box for each room, which leads to what lives there."""
        page = (self.folder / "html" / "architecture.html").read_text()
        for contract in ("rooms", "http", "reservations"):
            package, layers = rooms.read_layers(contract)
            for room in (room for layer in layers for room in layer.rooms):
                anchor = nodes.make_id(f"{package}-{room}")
                self.assertIn(f'<a href="#{anchor}">', page)
                self.assertIn(f'id="{anchor}"', page)


class TestFirstHour(base.TestCase):
    """What doc/first_hour.rst adds to the README's sections."""

    def test_look_around(self) -> None:
        """Each command ends well, in one shell, and answers something."""
        section = (_ROOT / "doc" / "first_hour.rst").read_text().partition("Look around\n==")[2]
        steps = re.findall(r"^    \$ (.+)$", section, flags=re.MULTILINE)
        self.assertGreater(len(steps), 9)
        folder = self.useFixture(fixtures.TempDir()).path
        script = "\n".join(steps).replace("/tmp/demo", f"{folder}/demo")
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-e"], input=script, cwd=folder, env={"PATH": path}, capture_output=True,
            text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("no host has 500 free VCPU", done.stdout)
        self.assertIn("black-friday", done.stdout)
        self.assertIn("more of VCPU:8,MEMORY_MB:32768", done.stdout)


class TestDocuments(base.TestCase):
    """README.rst and doc/, as they are written."""

    def test_every_route_is_described(self) -> None:
        """The page about the API names every collection."""
        text = (_ROOT / "doc" / "api.rst").read_text()
        for operation in routes.OPERATIONS:
            collection = operation.path.split("/{")[0]
            if "}/" in operation.path:
                collection = re.sub(r"\{\w+\}", "{uuid}", operation.path).removesuffix("/{uuid}")
            collection = re.sub(r"(/inventories|/traits)/\{uuid\}$", r"\1", collection) or "/"
            self.assertIn(f"``{collection}", text, operation)

        for operation in CAPACITY.operations:
            path = f"``{operation.method} {CAPACITY.prefix}{operation.path}"
            self.assertIn(path, text, operation)

        for api in (LIMITS, RESERVATIONS):
            for operation in api.operations:
                self.assertIn(f"``{api.prefix}{operation.path}``", text, operation)

    def test_every_table_is_listed(self) -> None:
        """The operator's guide says of each what makes it grow, and what removes it."""
        text = (_ROOT / "doc" / "operator" / "databases.rst").read_text()
        section = text.partition("What grows, and what removes it\n=")[2].partition("\n====")[0]
        listed = [name for line in section.splitlines() if line.startswith("``")
                  for name in re.findall("``(\\w+)``", line)]
        self.assertEqual(sorted(all_tables.metadata.tables), sorted(listed))

    def test_every_option_explains_itself(self) -> None:
        """Help that is more than the name in other words."""
        for group, options in conf.list_opts():
            for option in options:
                self.assertGreater(len(option.help or ""), 30, f"[{group}] {option.name}")


class TestReleaseNotes(base.TestCase):
    """releasenotes/notes, as reno reads them."""

    def test_they_are_well_formed(self) -> None:
        """Known sections, named slug-hex.yaml."""
        for note in _NOTES:
            self.assertRegex(note.name, r"^[a-z0-9-]+-[0-9a-f]{16}\.yaml$")
            content = yaml.safe_load(note.read_text())
            self.assertEqual(set(), set(content) - _RENO_SECTIONS, note)
            for section, entries in content.items():
                self.assertIsInstance(entries, str if section == "prelude" else list, note)
