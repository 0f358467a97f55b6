"""Whatever is wrong with the database's URL, no command shows a part of its password."""

from __future__ import annotations

import pathlib

import fixtures

from tests import base
from tests.functional.cli import commands

#: Parts of passwords begin with ``s3c`` or ``r3t``.
_URLS = (
    "s3cr3t", "user:s3cr3t@h/d", "postgresql:/user:s3cr3t@h/d", "postgresql//u:s3cr3t@h/d",
    "postgresql://u:s3c@r3t@127.0.0.1/d", "postgresql://u:s3c/r3t@127.0.0.1:1/d",
    "postgresql://u:s3c?r3t@127.0.0.1:1/d",
    "postgresql://u:s3c#r3t@127.0.0.1:1/d", "postgresql://u:s3cr3t@127.0.0.1:r3t/d",
    "postgresql://u:s3cr3t/d", "postgresql://u/s3c:r3t@127.0.0.1/d", "mysql://u:s3c@r3t@h/d",
    "mysql://u:s3cr3t@[h/d", "mysql+nosuch://u:s3cr3t@127.0.0.1:1/d", "oracle://u:s3cr3t@h/d",
    "postgresql://127.0.0.1:1/d?user=u&password=s3cr3t", "sqlite://u:s3cr3t@h/d",
    "mysql://u@127.0.0.1:1/d?passwd=s3cr3t", "postgresql://u:s3cr3t@127.0.0.1:1/d?sslmode=r",
    "u:s3cr3t@h://u:s3cr3t@h/d",
)


class TestSecrets(base.TestCase):
    def test_every_command_that_connects(self) -> None:
        shown = []
        for url in _URLS:
            for command in (("db", "version"), ("--debug", "db", "version"), ("db", "sync"),
                            ("serve",), ("status", "upgrade", "check"), ("manager",)):
                done = commands.run(
                    *command, connection=url, OS_PLACEMENT_DATABASE__MAX_RETRIES="0")
                self.assertNotEqual(0, done.returncode, (url, command))
                said = done.stdout + done.stderr
                if "s3c" in said or "r3t" in said:
                    shown.append((url, command, said))
        self.assertEqual([], shown)

    def test_a_line_that_cannot_be_read(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for line, reason in (("password s3cr3t", ""), ("= s3cr3t", "Key cannot be empty"),
                             ("  s3cr3t: r3t = '", "Unexpected continuation line"),
                             ("[s3cr3t", "Invalid section")):
            path = folder / "placement.conf"
            path.write_text(f"[keystone_authtoken]\n{line}\n")
            done = commands.run("--config-file", str(path), "db", "version")
            self.assertEqual(1, done.returncode)
            self.assertIn(f"{path}:2, {reason}", done.stderr)
            self.assertNotIn("s3c", done.stderr)
            self.assertEqual(1, done.stderr.count("\n"))

    def test_it_says_what_is_expected(self) -> None:
        done = commands.run("db", "version", connection="postgresql://u:p@ss@h/d")
        self.assertIn("[placement_database] connection: expected a database URL", done.stderr)
        self.assertIn("@ is %40", done.stderr)
        self.assertEqual(1, done.stderr.count("\n"))
