"""Managers as processes, of which one is killed and one is stopped for too long."""

from __future__ import annotations

from tests import base, databases
from tests.functional.reservations import managers


class TestStorm(base.TestCase):
    """Every effect once, and nothing left behind; ``make soak`` does it again and again."""

    def play(self, kind: str) -> None:
        if kind not in databases.KINDS:
            self.skipTest(f"needs {databases.VARIABLES[kind]}")
        database = databases.database(kind)
        self.addCleanup(database.dispose)
        managers.Storm(database).play()

    def test_on_postgresql(self) -> None:
        self.play("postgresql")

    def test_on_mysql(self) -> None:
        self.play("mysql")
