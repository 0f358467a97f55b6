"""What commands say of a database that cannot be used: which option, which place, and why."""

from __future__ import annotations

import pathlib

import fixtures

from tests.functional.cli import commands, test_commands

_OPTION = "[placement_database] connection = "
#: Nothing listens there.
_SERVER = "127.0.0.1:1/d"


class TestDatabasesInTrouble(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def say(self, connection: str, *arguments: str, code: int = 1) -> str:
        """Run a command that must fail with one line; return the line."""
        done = commands.run(*arguments, connection=connection,
                            OS_PLACEMENT_DATABASE__MAX_RETRIES="0")
        self.assertEqual((code, "", 1), (
            done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
        return done.stderr

    def every_command(self, connection: str, expected: str) -> None:
        for arguments, code in (
            (("db", "version"), 1), (("db", "sync"), 1), (("leases", "list"), 1),
            (("status", "upgrade", "check"), 255), (("serve",), 1), (("manager",), 1),
        ):
            self.assertIn(expected, self.say(connection, *arguments, code=code))

    def test_a_directory_that_is_not_there(self) -> None:
        url = f"sqlite:///{self.folder}/none/x.sqlite"
        self.every_command(url, f"{_OPTION}{url}: unable to open database file; there is no "
                           f"directory {self.folder}/none\n")

    def test_a_directory(self) -> None:
        url = f"sqlite:///{self.folder}"
        self.assertIn(f"{_OPTION}{url}: unable to open database file; {self.folder} is a "
                      "directory\n", self.say(url, "leases", "list"))

    def test_another_file(self) -> None:
        path = self.folder / "notes.txt"
        path.write_text("This is not a database, and long enough to be read as one." * 10)
        self.every_command(f"sqlite:///{path}", f"{_OPTION}sqlite:///{path}: file is not a "
                           "database\n")

    def test_a_damaged_file(self) -> None:
        path = pathlib.Path(self.connection.removeprefix("sqlite:///"))
        self.run_command("db", "sync")
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
        self.assertIn(f"{_OPTION}{self.connection}: database disk image is malformed",
                      self.say(self.connection, "leases", "list"))

    def test_servers_that_do_not_answer(self) -> None:
        """The option is named, the password is not."""
        for kind in ("postgresql", "mysql"):
            self.every_command(f"{kind}://u:secret@{_SERVER}", f"{_OPTION}{kind}://u:***@{_SERVER}:")
            said = self.say(f"{kind}://u:secret@{_SERVER}", "leases", "list")
            self.assertIn("refused", said)
            self.assertNotIn("secret", said)
