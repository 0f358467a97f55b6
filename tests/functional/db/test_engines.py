"""The service starts only on an engine that has what it uses."""

from __future__ import annotations

import fixtures

from placement_core import configured_database, errors
from placement_core.db import engines
from tests import base, databases
from tests.http import base as http_base


@databases.on_each_database
class TestEngines(base.DatabaseTestCase):
    def wait(self) -> None:
        """Begin to start."""
        configured_database.wait_until_it_answers(
            http_base.configuration(self.database.settings.connection))

    def test_one_that_is_supported(self) -> None:
        engine = engines.identify(self.database)
        self.assertIn(engine.product, {
            "sqlite": {"SQLite"}, "postgresql": {"PostgreSQL"}, "mysql": {"MariaDB", "MySQL"},
        }[self.kind])
        self.assertRegex(str(engine), rf"^{engine.product} \d+(\.\d+)+$")
        self.wait()

    def test_one_that_is_too_old(self) -> None:
        """The refusal is one line: the option, its value, and what was expected."""
        engine = engines.identify(self.database)
        self.useFixture(fixtures.MonkeyPatch(
            f"{engines.__name__}.OLDEST", {engine.product: (99, 1)}))
        refusal = str(self.assertRaises(errors.ConfigurationError, self.wait))
        self.assertEqual(
            f"{self.database.settings.named} = {self.database.masked_url}: it is {engine}; "
            f"expected {engine.product} 99.1 or newer", refusal)
