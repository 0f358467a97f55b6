"""A mistake in the configuration is found, and what is in force can be seen."""

from __future__ import annotations

import json
import os
import pathlib
import textwrap

import fixtures

from tests import distributions, serving
from tests.functional.cli import commands, test_commands


class ConfigurationTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, text: str, name: str = "placement.conf") -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return str(path)

    def run_here(self, *arguments: str, code: int = 0, **more: str) -> list[str]:
        """Run a command on the written files; return the lines of its output."""
        done = commands.run(
            *arguments, connection=self.connection,
            **{"OS_PLACEMENT_CONFIG_DIR": str(self.folder), **more})
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        self.stderr = done.stderr
        return done.stdout.splitlines()


class TestCheck(ConfigurationTestCase):
    """``config check``."""

    def test_nothing_is_wrong(self) -> None:
        """Options of libraries, of drivers, and of the way to log in are known."""
        path = self.write("""
            [DEFAULT]
            debug = false
            [keystone_authtoken]
            auth_type = v3password
            auth_url = http://keystone.invalid
            user_domain_name = Default
            www_authenticate_uri = http://keystone.invalid
            [keystone_client]
            auth_section = login
            [login]
            auth_type = password
            auth-url = http://keystone.invalid
            [oslo_policy]
            policy_file = policy.yaml
            [placement_client]
            auth_type = none
            """)
        more = self.write("[cors]\nallowed_origin = http://a.example\n", "placement.conf.d/a.conf")
        self.assertEqual([f"nothing is wrong with {path}, {more}, the environment"],
                         self.run_here("config", "check"))

    def test_misspelt_names(self) -> None:
        """Each is named with its file, and with the nearest name that there is."""
        path = self.write("""
            [DEFAULT]
            debgu = true
            [placement_databse]
            connection = x
            [limits]
            drivr = local
            max_pool_size = 3
            [keystone_authtoken]
            auth_type = password
            pasword = secret
            [profiler]
            enabled = false
            """)
        more = self.write("[quota]\ngurad = off\n", "placement.conf.d/b.conf")
        lines = self.run_here(
            "config", "check", code=1, OS_LIMITS__DRIVE="local", OS_LIMTS__DRIVER="local",
            OS_API_AUTH_STRATEGY="keystone", OS_USERNAME="not ours")
        self.assertEqual({
            f"{path}: [DEFAULT] debgu: no option reads it; is debug meant?",
            f"{path}: [placement_databse] connection: there is no section [placement_databse]; "
            "is [placement_database] meant?",
            f"{path}: [limits] drivr: no option reads it; is driver meant?",
            f"{path}: [limits] max_pool_size: no option reads it; it belongs into "
            "[placement_database]",
            f"{path}: [keystone_authtoken] pasword: no option reads it; is password meant?",
            f"{path}: [profiler] enabled: there is no section [profiler]",
            f"{more}: [quota] gurad: no option reads it; is guard meant?",
            "OS_LIMITS__DRIVE: no option reads it; is OS_LIMITS__DRIVER meant?",
            "OS_LIMTS__DRIVER: there is no section [limts]; is [limits] meant?",
            "OS_API_AUTH_STRATEGY: no option reads it; is OS_API__AUTH_STRATEGY meant?",
        }, set(lines))

    def test_what_the_service_needs(self) -> None:
        """What would stop it is found without the database."""
        lines = self.run_here("config", "check", code=1, OS_API__AUTH_STRATEGY="keystone")
        self.assertEqual(1, len(lines), lines)
        self.assertIn("[keystone_authtoken] auth_type: expected", lines[0])
        lines = self.run_here("config", "check", code=1, OS_LIMITS__DRIVER="locl")
        self.assertEqual(
            ["[limits] driver = locl: no such driver; installed: keystone, local"], lines)

    def test_a_value(self) -> None:
        """A value that cannot be read is the one line of the error."""
        self.run_here("config", "check", code=1, OS_PLACEMENT_DATABASE__MAX_POOL_SIZE="many")
        self.assertIn("max_pool_size", self.stderr)
        self.assertEqual(1, self.stderr.count("\n"))


class TestWarnings(ConfigurationTestCase):
    """Whatever starts warns."""

    def test_commands(self) -> None:
        """On stderr; what is printed stays as it is."""
        self.write("[limits]\ndrivr = local\n")
        self.run_here("db", "sync")
        self.assertIn("[limits] drivr: no option reads it; is driver meant?\n", self.stderr)

    def test_servers(self) -> None:
        """Once, however many workers there are; under any WSGI server too."""
        self.run_here("db", "sync")
        for server in ("serve", "gunicorn"):
            service = self.useFixture(serving.Service(
                self.connection, by=server, options={"OS_LIMITS__DRIVR": "local"}))
            log = service.log.read_text()
            self.assertEqual(1, log.count("OS_LIMITS__DRIVR: no option reads it"), log)


class TestBrokenDrivers(ConfigurationTestCase):
    """Somebody installed a driver whose import fails."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(distributions.Distribution("theirs", {
            "placement_core.limits": ["theirs = no_such_module:Driver"],
            "oslo.config.opts": ["theirs = no_such_module:list_opts"]}))

    def test_what_no_option_names(self) -> None:
        """It does no harm: its section may be right, and what else is misspelt is found."""
        path = self.write("""
            [theirs]
            auth_type = password
            url = http://theirs.example
            [keystone_authtoken]
            www_authenticate_uri = http://keystone.invalid
            """)
        self.assertEqual([f"nothing is wrong with {path}, the environment"],
                         self.run_here("config", "check"))
        self.assertEqual(
            "the options of theirs 1 cannot be loaded: ModuleNotFoundError: No module named "
            "'no_such_module'\n", self.stderr)
        self.write("""
            [theirs]
            url = http://theirs.example
            [keystone_authtoken]
            auth_type = password
            pasword = secret
            """)
        self.assertEqual(
            [f"{path}: [keystone_authtoken] pasword: no option reads it; is password meant?"],
            self.run_here("config", "check", code=1))
        self.write("[placement_databse]\nconnection = sqlite://\n")
        [problem] = self.run_here("config", "check", code=1)
        self.assertIn("[placement_databse]", problem)
        for command in (("config", "show"), ("plugins", "list")):
            self.assertNotEqual([], self.run_here(*command))

    def test_what_an_option_names(self) -> None:
        """The loader says which option, and why."""
        self.write("[theirs]\nurl = http://theirs.example\n")
        self.assertEqual(
            ["[limits] driver = theirs: the driver cannot be loaded: ModuleNotFoundError: No "
             "module named 'no_such_module' (theirs 1)"],
            self.run_here("config", "check", code=1, OS_LIMITS__DRIVER="theirs"))


class TestEmbedded(ConfigurationTestCase):
    """Without a configuration."""

    def test_the_database_of_make_serve(self) -> None:
        """Commands use it where it is, and say so."""
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(self.folder)
        self.connection = None
        self.run_here("leases", "list", code=1)
        self.assertIn("[placement_database] connection: expected a value", self.stderr)
        path = self.folder / "placement.sqlite"
        path.touch()
        self.run_here("db", "sync")
        self.assertEqual(
            f"no placement.conf: the database is sqlite:///{path}\n", self.stderr)
        self.assertEqual("[]", "".join(self.run_here("leases", "list", "-f", "json")))


class TestShow(ConfigurationTestCase):
    """``config show``."""

    def test_sources(self) -> None:
        """Each value with its file or variable, and the defaults."""
        path = self.write("""
            [limits]
            driver = local
            [placement]
            max_allocation_candidates = 5
            [reservations]
            cleaning_time = 7
            """)
        more = self.write("[reservations]\ncleaning_time = 8\n", "placement.conf.d/c.conf")
        rows = {
            (row["section"], row["option"]): (row["value"], row["source"]) for row in json.loads(
                "".join(self.run_here(
                    "config", "show", "-f", "json", OS_LIMITS__ENFORCEMENT_MODEL="tree")))}
        self.assertEqual(("local", path), rows["limits", "driver"])
        self.assertEqual((5, path), rows["placement", "max_allocation_candidates"])
        self.assertEqual((8, more), rows["reservations", "cleaning_time"])
        self.assertEqual(
            ("tree", "OS_LIMITS__ENFORCEMENT_MODEL"), rows["limits", "enforcement_model"])
        self.assertEqual(("off", "default"), rows["quota", "guard"])

    def test_only_what_is_set(self) -> None:
        """In one section, or in all."""
        path = self.write("[limits]\ndriver = local\n")
        self.assertEqual(
            [f"limits driver local {path}"],
            self.run_here("config", "show", "limits", "--set", "-f", "value"))
        self.run_here("config", "show", "limts", code=1)
        self.assertEqual("there is no section [limts]\n", self.stderr)

    def test_secrets(self) -> None:
        """They are masked, in options of ours and of libraries, and in URLs."""
        self.write("""
            [keystone_authtoken]
            auth_type = password
            password = geheim
            [nova]
            auth_type = v3applicationcredential
            application_credential_secret = geheim
            [placement_database]
            slave_connection = mysql://nova:geheim@db/x
            """)
        text = "\n".join(self.run_here("config", "show", "--set", "-f", "csv"))
        self.assertNotIn("geheim", text)
        self.assertEqual(3, text.count("***"), text)
