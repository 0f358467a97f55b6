"""A man page for each command, which man can show."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import fixtures
import testtools

from doc import man_pages
from placement_core.cli import commands
from tests import base


@testtools.skipUnless(shutil.which("man"), "man is not installed")
class TestManPages(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "man")

    def render(self, page: str) -> tuple[str, str]:
        """Return what man prints of a page, with single blanks, and what it complains of."""
        done = subprocess.run(
            ["man", "--warnings", "--local-file", str(self.folder / page)],
            capture_output=True, text=True, check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "200"})
        return " ".join(done.stdout.split()), done.stderr

    def test_every_command_has_one(self) -> None:
        man_pages.write_pages(self.folder)
        self.assertEqual(
            sorted(f"placement-core-{'-'.join(name.split())}.1" for name in commands.COMMANDS),
            sorted(page.name for page in self.folder.iterdir()))
        for page, name in man_pages.list_pages().items():
            text, complaints = self.render(page)
            self.assertEqual("", complaints, page)
            self.assertIn(f"placement-core {name}", text)
            self.assertIn(commands.read_summary(name)[:30], text)

    def test_options_are_described(self) -> None:
        man_pages.write_pages(self.folder)
        text, _ = self.render("placement-core-serve.1")
        self.assertIn("--graceful-timeout", text)
        self.assertIn("PLACEMENT-CORE-SERVE(1)", text)
