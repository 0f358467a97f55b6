"""Liveness and readiness, as load balancers ask for them: without token or version."""

from __future__ import annotations

import threading

import fixtures
import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.migrations import revisions, upgrades
from placement_core.reservations import tables as reservations
from placement_core.reservations.manager import heartbeats
from tests import databases
from tests.http import base


@databases.on_each_database
class TestHealth(base.HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.engine = sa.create_engine(self.conf.placement_database.connection)
        self.addCleanup(self.engine.dispose)

    def probe(self, path: str) -> tuple[int, str]:
        response = self.ask("GET", path, version="bogus", token=None)
        return response.status_int, response.text

    def test_ready(self) -> None:
        ready = (200, f"ready\ndatabase: answers\nschema: {revisions.head()}\nindex: current\n"
                 "manager: none alive\n")
        self.assertEqual(ready, self.probe("/readiness"))
        self.ask("POST", "/resource_providers", {"name": "host"})
        self.assertEqual(ready, self.probe("/readiness"))

    def test_managers_that_live(self) -> None:
        for owner in ("a", "b"):
            heartbeats.beat(self.parts[-1].context(), owner=owner)
        status, text = self.probe("/readiness")
        self.assertEqual(200, status)
        self.assertIn("\nmanager: 2 alive\n", text)

    def test_nobody_knows_of_managers(self) -> None:
        """The API does not need to."""
        self.drop(reservations.managers)
        status, text = self.probe("/readiness")
        self.assertEqual((200, True), (status, "\nmanager: unknown\n" in text))

    def test_not_ready_without_an_index(self) -> None:
        self.drop(tables.change_heads)
        self.assertEqual(
            (503, f"not ready\ndatabase: answers\nschema: {revisions.head()}\n"
             "index: cannot be loaded\nmanager: unknown\n"), self.probe("/readiness"))
        self.assertEqual(200, self.probe("/healthcheck")[0])

    def test_schema(self) -> None:
        """One of a later version only has more; one that is older lacks something."""
        for revision, status, expected in (
            ("9999", 200, f"9999, of a later version ({revisions.head()} is needed)"),
            ("0001", 503, f"0001, expected {revisions.head()}"),
        ):
            with self.engine.begin() as connection:
                upgrades.stamp(connection, revision, revisions.VERSION_TABLE)
            self.addCleanup(self.stamp_newest)
            answered, text = self.probe("/readiness")
            self.assertEqual((status, True), (answered, f"\nschema: {expected}\n" in text), text)

    def test_no_thread_can_be_started(self) -> None:
        """It says so at once, and the next request has another look."""
        log = self.useFixture(fixtures.FakeLogger())
        with fixtures.MonkeyPatch("threading.Thread.start", self.refuse_thread):
            status, text = self.probe("/readiness")
        self.assertEqual((503, True), (status, "\ndatabase: unknown\n" in text), text)
        self.assertIn("not ready: can't start new thread", log.output)
        self.assertEqual(200, self.probe("/readiness")[0])

    @staticmethod
    def refuse_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def stamp_newest(self) -> None:
        with self.engine.begin() as connection:
            upgrades.stamp(connection, revisions.head(), revisions.VERSION_TABLE)

    def drop(self, table: sa.Table) -> None:
        with self.engine.begin() as connection:
            rows = [row._asdict() for row in connection.execute(sa.select(table))]
            connection.execute(sa.schema.DropTable(table))
        self.addCleanup(_restore, self.engine, table, rows)


def _restore(engine: sa.Engine, table: sa.Table, rows: list[dict[str, object]]) -> None:
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateTable(table))
        if rows:
            connection.execute(sa.insert(table), rows)
