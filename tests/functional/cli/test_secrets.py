"""Whatever is set, and whatever is wrong with it, no command shows a part of a secret."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import fixtures
from keystoneauth1 import loading as auth_loading
from oslo_config import cfg

from placement_core.conf import namespaces
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


_DATABASE = "postgresql://u:s3cr3t@127.0.0.1:1/d"


class TestEverySecretOption(base.TestCase):
    """Options that are secret, of the service, of its drivers, and of the ways to log in."""

    #: Passwords may look like anything, even like a URL.
    _SECRETS = ("s3cr3t", "s3cr3t://r3t", "u:s3cr3t@r3t", "http://u:s3cr3t@h/?r3t=r3t")

    def test_nothing_shows_one(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "placement.conf")
        for auth_type, secret in (
                *(("v3password", secret) for secret in self._SECRETS),
                ("v3applicationcredential", "s3cr3t"), ("v3token", "s3cr3t")):
            groups = {group: list(_find_secret(options, auth_type))
                      for group, options in namespaces.load_options().groups.items()}
            self.assertIn("connection", groups["placement_database"])
            self.assertGreater(len(groups["keystone_authtoken"]), 1)
            path.write_text("".join(_write(groups, auth_type, secret)))
            self.assert_silent(path)

    def assert_silent(self, path: pathlib.Path) -> None:
        for command in (("config", "show"), ("config", "show", "--set", "-f", "json"),
                        ("config", "check"), ("config", "sample"), ("plugins", "list"),
                        ("--debug", "plugins", "list", "-f", "json"), ("serve",),
                        ("--debug", "status", "upgrade", "check"), ("--debug", "manager")):
            done = commands.run(
                "--config-file", str(path), *command, OS_API__AUTH_STRATEGY="keystone",
                OS_PLACEMENT_DATABASE__MAX_RETRIES="0")
            lines = (done.stdout + done.stderr).splitlines()
            self.assertNotEqual([], lines, command)
            self.assertEqual(
                [], [line[:1000] for line in lines if "s3cr3t" in line or "r3t" in line], command)
            if command[:2] == ("config", "show"):
                self.assertGreater("".join(lines).count("***"), 5)

    def test_names_that_no_option_has(self) -> None:
        """What is misspelt is named, without its value."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "placement.conf")
        path.write_text("[keystone_authtoken]\nauth_type = password\npasword = s3cr3t\n")
        done = commands.run("--config-file", str(path), "config", "check", connection=_DATABASE,
                            OS_PLACEMENT_DATABASE__CONECTION="sqlite://u:s3cr3t@h")
        self.assertEqual(1, done.returncode)
        self.assertIn("pasword", done.stdout)
        self.assertIn("OS_PLACEMENT_DATABASE__CONECTION", done.stdout)
        self.assertNotIn("s3cr3t", done.stdout + done.stderr)


def _find_secret(options: list[cfg.Opt], auth_type: str) -> Iterator[str]:
    """Yield the names of the secret options of a group, those of a way to log in included."""
    if any(option.dest == "auth_type" for option in options):
        options = [*options, *auth_loading.get_auth_plugin_conf_options(auth_type)]
    yield from {option.dest for option in options if option.secret}


def _write(groups: dict[str, list[str]], auth_type: str, secret: str) -> Iterator[str]:
    """Yield the lines of a file that sets options."""
    for group, names in groups.items():
        yield f"[{group}]\n"
        if group == "keystone_authtoken":
            yield f"auth_type = {auth_type}\nauth_url = http://127.0.0.1:1/v3\n"
        for name in names:
            yield f"{name} = {_DATABASE if name.endswith('connection') else secret}\n"
