"""Gangs through several servers: whole ones, and exactly as many as fit."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
from typing import Any

import sqlalchemy as sa

from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases, serving


@databases.on_each_database
class TestGangs(base.DatabaseTestCase):
    """64 clients want gangs of 8; there is room for 50, through two servers."""

    CLIENTS = 64
    MEMBERS = 8
    GANGS = 50

    def setUp(self) -> None:
        super().setUp()
        for _ in range(self.GANGS):
            factories.provider(self.ctx, inventory={"VCPU": self.MEMBERS})
        connection = self.database.url.render_as_string(hide_password=False)
        self.servers = [self.useFixture(serving.Service(connection)) for _ in range(2)]
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.unexpected: list[object] = []

    def test_exactly_as_many_as_fit(self) -> None:
        self.race(self.play)
        self.assertEqual([], self.unexpected)
        self.assertEqual(self.GANGS * self.MEMBERS, len(self.acknowledged))
        self.assertEqual(set(self.acknowledged), self.stored())
        self.assertEqual(self.CLIENTS - self.GANGS, len(self.refused))

    def test_one_server_is_killed(self) -> None:
        """Its gangs are there as a whole or not at all; the other server fills the rest."""
        killed, other = self.servers

        def play_until_killed(number: int) -> None:
            if number % 2:
                self.play(number)
                return
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.play(number)
            if len(self.acknowledged) > 10 * self.MEMBERS and killed.process.poll() is None:
                self.kill(killed)

        self.race(play_until_killed)
        self.kill(killed)
        killed.process.wait()
        while self.claim(other, http.client.HTTPConnection(other.address, timeout=120)):
            pass
        self.assertEqual([], self.unexpected)
        stored = self.stored()
        self.assertEqual(self.GANGS * self.MEMBERS, len(stored))
        self.assertEqual(set(), set(self.acknowledged) - stored)

    def kill(self, server: serving.Service) -> None:
        """Kill a server with its workers, if nobody else has done so."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)

    def race(self, play: Any) -> None:
        start = threading.Barrier(self.CLIENTS)

        def client(number: int) -> None:
            start.wait()
            play(number)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def play(self, number: int) -> None:
        server = self.servers[number % 2]
        self.claim(server, http.client.HTTPConnection(server.address, timeout=120), number)

    def claim(
        self, server: serving.Service, connection: http.client.HTTPConnection, number: int = 0
    ) -> bool:
        """Claim a gang; return whether there was room."""
        rule = ({}, {"pack_by": "host"}, {"spread_by": "host"})[number % 3]
        status, document = server.request("POST", "/capacity/v1/claims", {"claim": {
            "project_id": "rivals", "user_id": "rival", "consumer_type": "INSTANCE",
            "find": {"members": self.MEMBERS, "resources": {"VCPU": 1}, **rule}}},
            connection=connection)
        if status == 201:
            self.acknowledged += [
                member["consumer_uuid"] for member in document["claim"]["members"]]
        elif status == 409 and "members do not fit" in str(document):
            self.refused.append(document["errors"][0]["detail"])
        else:
            self.unexpected.append((status, document))
        return status == 201

    def stored(self) -> set[str]:
        """Return the consumers; whatever they hold is in the inventories."""
        with self.database.autocommit.connect() as session:
            used = session.scalar(sa.select(sa.func.sum(tables.inventories.c.used)))
            held = session.execute(sa.select(
                tables.allocations.c.consumer_id, tables.allocations.c.used)).all()
            consumers = set(session.scalars(sa.select(tables.consumers.c.uuid)))
        self.assertEqual({1}, {row.used for row in held})
        self.assertEqual((used, consumers), (len(held), {row.consumer_id for row in held}))
        return consumers
