"""Liveness and readiness, as load balancers ask for them: without token or version."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.changes import tables
from tests import databases
from tests.http import base


@databases.on_each_database
class TestHealth(base.HttpTestCase):
    def probe(self, path: str) -> tuple[int, str]:
        response = self.ask("GET", path, version="bogus", token=None)
        return response.status_int, response.text

    def test_ready(self) -> None:
        self.assertEqual((200, "ready\n"), self.probe("/readiness"))
        self.ask("POST", "/resource_providers", {"name": "host"})
        self.assertEqual((200, "ready\n"), self.probe("/readiness"))

    def test_not_ready_without_an_answer_from_the_database(self) -> None:
        engine = sa.create_engine(self.conf.placement_database.connection)
        self.addCleanup(engine.dispose)
        with engine.begin() as connection:
            rows = [row._asdict() for row in connection.execute(sa.select(tables.change_heads))]
            connection.execute(sa.schema.DropTable(tables.change_heads))
        self.addCleanup(_restore, engine, rows)
        self.assertEqual((503, "not ready\n"), self.probe("/readiness"))
        self.assertEqual(200, self.probe("/healthcheck")[0])


def _restore(engine: sa.Engine, rows: list[dict[str, object]]) -> None:
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateTable(tables.change_heads))
        connection.execute(sa.insert(tables.change_heads), rows)
