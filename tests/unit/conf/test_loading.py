"""Where options come from, and what a wrong one says."""

from __future__ import annotations

import os
import pathlib

import fixtures

from placement_core import conf, errors
from tests import base

_UPSTREAM = """
[DEFAULT]
debug = true
state_path = /srv/placement
use_journal = false
tempdir = /tmp
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///$state_path/db.sqlite
slave_connection = mysql://somewhere/else
max_pool_size = 7
connection_trace = false
[placement]
randomize_allocation_candidates = true
allocation_conflict_retry_count = 3
max_allocation_candidates = 1000
allocation_candidates_generation_strategy = breadth-first
[workarounds]
optimize_for_wide_provider_trees = true
[oslo_policy]
enforce_scope = true
enforce_new_defaults = false
policy_file = policy.yaml
[cors]
allowed_origin = http://a.example
[keystone_authtoken]
auth_type = password
memcached_servers = 127.0.0.1:11211
[profiler]
enabled = false
"""


class TestLoad(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.environment("OS_PLACEMENT_CONFIG_DIR", str(self.folder))

    def environment(self, name: str, value: str) -> None:
        self.useFixture(fixtures.EnvironmentVariable(name, value))

    def write(self, text: str, name: str = "placement.conf") -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def refusal(self, *arguments: str) -> str:
        error = self.assertRaises(errors.ConfigurationError, conf.load, arguments)
        self.assertNotIn("\n", str(error))
        return str(error)

    def test_a_file_for_upstream(self) -> None:
        self.write(_UPSTREAM)
        loaded = conf.load()
        self.assertEqual(
            "sqlite:////srv/placement/db.sqlite", loaded.placement_database.connection)
        self.assertEqual(7, loaded.placement_database.max_pool_size)
        self.assertEqual("noauth2", loaded.api.auth_strategy)
        self.assertEqual(["http://a.example"], loaded.cors.allowed_origin)
        self.assertIs(False, loaded.oslo_policy.enforce_new_defaults)
        self.assertEqual(1000, loaded.placement.max_allocation_candidates)

    def test_the_later_source_wins(self) -> None:
        self.write("[placement_database]\nconnection = sqlite:///a\nmax_retries = 1\n"
                   "retry_interval = 1\nmax_overflow = 1\n")
        self.write("[placement_database]\nmax_retries = 2\nretry_interval = 2\n",
                   "placement.conf.d/10.conf")
        self.write("[placement_database]\nmax_retries = 3\n", "placement.conf.d/20.conf")
        self.environment("OS_PLACEMENT_DATABASE__RETRY_INTERVAL", "4")
        database = conf.load().placement_database
        self.assertEqual(
            (3, 4, 1), (database.max_retries, database.retry_interval, database.max_overflow))

    def test_environment_alone(self) -> None:
        self.environment("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:////tmp/x")
        loaded = conf.load()
        self.assertEqual("sqlite:////tmp/x", loaded.placement_database.connection)
        self.assertEqual("keystone", loaded.api.auth_strategy)

    def test_embedded_database(self) -> None:
        """It is used where nothing is configured, and only if it is there."""
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(self.folder)
        self.assertRaises(errors.ConfigurationError, conf.load, embedded=True)
        database = self.folder / "placement.sqlite"
        database.touch()
        loaded = conf.load(embedded=True)
        self.assertEqual(f"sqlite:///{database}", loaded.placement_database.connection)
        self.assertTrue(conf.uses_embedded(loaded))
        self.assertRaises(errors.ConfigurationError, conf.load)
        # A file, or the environment, is a configuration.
        self.environment("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:////tmp/x")
        self.assertFalse(conf.uses_embedded(conf.load(embedded=True)))
        self.write("[limits]\ndriver = local\n")
        with fixtures.EnvironmentVariable("OS_PLACEMENT_DATABASE__CONNECTION"):
            self.assertRaises(errors.ConfigurationError, conf.load, embedded=True)

    def test_given_files(self) -> None:
        self.write("not even an ini file")
        path = self.write("[placement_database]\nconnection = sqlite:///b\n", "other.conf")
        self.assertEqual(
            "sqlite:///b", conf.load(config_files=[path]).placement_database.connection)
        self.assertEqual(
            "sqlite:///b", conf.load(["--config-file", path]).placement_database.connection)

    def test_no_connection(self) -> None:
        self.assertIn("[placement_database] connection: expected a value", self.refusal())

    def test_no_such_file(self) -> None:
        self.assertIn("/nowhere.conf", self.refusal("--config-file", "/nowhere.conf"))

    def test_wrong_values(self) -> None:
        for text, expected in (
            ("[api]\nauth_strategy = magic", "[api] auth_strategy: "),
            ("[placement_database]\nmax_retries = many", "[placement_database] max_retries: "),
            ("[placement_database]\nlock_timeout_seconds = -1", "lock_timeout_seconds: "),
            ("no ini file", "placement.conf"),
        ):
            self.write(f"{text}\n")
            self.environment("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:////tmp/x")
            self.assertIn(expected, self.refusal())

    def test_wrong_value_in_the_environment(self) -> None:
        self.environment("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:////tmp/x")
        self.environment("OS_API__AUTH_STRATEGY", "magic")
        refusal = self.refusal()
        self.assertIn("[api] auth_strategy: OS_API__AUTH_STRATEGY: ", refusal)
        self.assertIn("keystone, noauth2", refusal)


class TestSample(base.TestCase):
    def test_every_option_has_help(self) -> None:
        for group, options in conf.list_opts():
            for option in options:
                self.assertTrue(option.help, f"{group}: {option.name}")
