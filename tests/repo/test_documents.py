"""The documents are well-formed, lead somewhere, and speak of everything there is."""

from __future__ import annotations

import re

import yaml

from doc import build
from placement_core import conf
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


class TestDocuments(base.TestCase):
    """README.rst and doc/."""

    def test_they_are_well_formed(self) -> None:
        """docutils finds nothing to warn about."""
        for source in build.SOURCES:
            self.assertIn("<h1", build.html(source), source)

    def test_links(self) -> None:
        """A link to another document leads to one that exists."""
        for source in build.SOURCES:
            for target in re.findall(
                    r"<([\w/.-]+\.(?:rst|md))>`_", source.read_text()):
                self.assertTrue((source.parent / target).exists(), f"{source}: {target}")

    def test_every_route_is_described(self) -> None:
        """The page about the API names every collection."""
        text = (build.ROOT / "doc" / "api.rst").read_text()
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
        text = (build.ROOT / "doc" / "operator.rst").read_text()
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
        notes = sorted((build.ROOT / "releasenotes" / "notes").iterdir())
        self.assertGreater(len(notes), 0)
        for note in notes:
            self.assertRegex(note.name, r"^[a-z0-9-]+-[0-9a-f]{16}\.yaml$")
            content = yaml.safe_load(note.read_text())
            self.assertEqual(set(), set(content) - _RENO_SECTIONS, note)
            for section, entries in content.items():
                self.assertIsInstance(entries, str if section == "prelude" else list, note)
