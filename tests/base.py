"""The base classes of our tests."""

from __future__ import annotations

import fixtures
import testtools

from placement_core.context import Context
from tests import databases

#: Several times what the longest test takes.
_MOST_SECONDS = 1200


class TestCase(testtools.TestCase):
    """A test that touches nothing outside its process."""

    def setUp(self) -> None:
        super().setUp()
        # One that hangs fails, so that those behind it run.
        self.useFixture(fixtures.Timeout(_MOST_SECONDS, gentle=True))


class DatabaseTestCase(TestCase):
    """A test of domain functions on a real, empty database of its own.

    :cvar kind: sqlite, postgresql or mysql; ``databases.on_each_database``
        makes the class run on all of them.
    """

    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        # By chance one transaction in hundreds prunes the change log: tests that count
        # statements do not expect it.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.changes.journal._PRUNE_EVERY", 2**62))
        self.database = databases.database(self.kind)
        self.addCleanup(self.database.dispose)
        self.ctx = self.context()

    def skip_on_mysql(self, reason: str) -> None:
        """Skip a test of what MariaDB does, and MySQL does not.

        :param reason: what MySQL does instead (``doc/operator/databases.rst``).
        """
        if self.kind == "mysql":
            with self.database.autocommit.connect() as connection:
                if not connection.dialect.is_mariadb:
                    self.skipTest(f"MySQL: {reason}")

    def context(self) -> Context:
        """Return a context of its own, for a second transaction or thread."""
        return Context(self.database)
