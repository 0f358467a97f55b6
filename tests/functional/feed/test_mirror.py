"""Mirrors that are built from the feed while many write, and connections die, are the database.

``MIRROR_RUNS=50`` repeats the runs with other writes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.changes.errors import DatabaseReplaced
from placement_core.db import TransactionConflict
from placement_core.feed import reading
from placement_core.feed.kinds import KINDS
from placement_core.feed.records import Filters
from placement_core.feed.tokens import Token, decode, encode
from placement_core.placement import allocations, provider_list, providers
from placement_core.placement.allocations import consumer_list
from placement_core.placement.records import ANY_GENERATION, AllocationWrite
from placement_core.placement.usage import usage_list
from placement_core.quota import claims, held_claims
from placement_core.testing import factories
from tests import base, databases, races

_RUNS = int(os.environ.get("MIRROR_RUNS", "1"))
_PROJECTS = ("red", "green", "blue")
_KINDS = ("provider", "consumer", "claim", "project_usage")
#: What writers may be answered while connections are cut.
_REFUSALS = (errors.Error, TransactionConflict)


class Mirror:
    """What a reader knows."""

    def __init__(self, test: base.DatabaseTestCase, project: str | None = None) -> None:
        kinds = [name for name in _KINDS if project is None or KINDS[name].owned]
        self.objects: dict[tuple[str, str], Any] = {}
        self.revisions: list[int] = []
        self._test = test
        self._filters = Filters(frozenset(kinds), project)
        self.token: Token | None = None

    def follow(self, most: int) -> bool:
        """Apply one answer; return whether there is more."""
        answer = reading.read(self._test.context(), self.token, self._filters, most=most)
        for change in answer.changes:
            if change.record is None:
                self.objects.pop((change.kind, change.id), None)
            else:
                self.objects[change.kind, change.id] = change.record
        self.token = decode(encode(answer.token))
        self.revisions.append(answer.revision)
        return answer.more

    def catch_up(self) -> None:
        while self.follow(1000):
            pass


class MirrorTestCase(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.hosts = [factories.provider(self.ctx, inventory={"VCPU": 1000}).uuid
                      for _ in range(3)]

    def write(self, draw: random.Random, writes: int) -> None:
        """Claim, release, hold and hand over, and let hosts come and go."""
        ctx, held = self.context(), []
        for _ in range(writes):
            with contextlib.suppress(*_REFUSALS):
                self.write_once(ctx, draw, held)

    def write_once(self, ctx: Any, draw: random.Random, held: list[str]) -> None:
        action = draw.random()
        if action < 0.4 or not held:
            held.append(factories.new_uuid())
            write = self.allocation(draw, held[-1], None)
            allocations.replace(ctx, [write])
        elif action < 0.6:
            allocations.replace(ctx, [self.allocation(draw, draw.choice(held), ANY_GENERATION)])
        elif action < 0.7:
            allocations.delete(ctx, held.pop())
        elif action < 0.8:
            write = self.allocation(draw, factories.new_uuid(), None)
            with db.write(ctx) as session:
                allocations.replace(ctx, [write])
                held_claims.insert(session, [write], 60)
        elif action < 0.9:
            for claim in claims.list_(ctx, most=1)[0]:
                claims.release(ctx, claim.consumer_uuid)
        else:
            host = factories.provider(ctx, inventory={"VCPU": 1})
            if draw.random() < 0.7:
                providers.delete(ctx, host.uuid)

    def allocation(
        self, draw: random.Random, consumer: str, generation: int | None
    ) -> AllocationWrite:
        return AllocationWrite(
            consumer, {draw.choice(self.hosts): {"VCPU": draw.randint(1, 2)}},
            draw.choice(_PROJECTS), "jane", "INSTANCE", generation)

    def read_all(self, project: str | None = None) -> dict[tuple[str, str], Any]:
        ctx = self.context()
        objects: dict[tuple[str, str], Any] = {}
        if project is None:
            objects |= {("provider", each.uuid): each for each in provider_list.list_(ctx)}
        objects |= {("consumer", each.uuid): each
                    for each in consumer_list.list_(ctx, project_id=project)}
        objects |= {("claim", each.consumer_uuid): each
                    for each in claims.list_(ctx, project_id=project, most=100_000)[0]}
        return objects | {
            ("project_usage", each.project_id): each
            for each in usage_list.list_(ctx, limit=100).usages
            if project in (None, each.project_id)}

    def assert_equal_to_the_database(self, mirror: Mirror, project: str | None = None) -> None:
        mirror.catch_up()
        self.assertEqual(self.read_all(project), mirror.objects)
        self.assertEqual(sorted(mirror.revisions), mirror.revisions)


@databases.on_each_database
class TestManyWriters(MirrorTestCase):
    def test_mirrors(self) -> None:
        for run in range(_RUNS):
            self.play(random.Random(run))

    def play(self, draw: random.Random) -> None:
        ended = threading.Event()
        first, owned, late = Mirror(self), Mirror(self, "red"), Mirror(self)
        writers = 4 if self.kind == "sqlite" else 8

        def write(seed: int) -> None:
            self.write(random.Random(seed), 15)

        def follow(mirror: Mirror, most: int) -> None:
            while not ended.is_set():
                with contextlib.suppress(errors.Unavailable):
                    if not mirror.follow(most):
                        time.sleep(0.01)

        def cut() -> None:
            while not ended.wait(0.05):
                self.cut_a_connection()

        def work() -> None:
            try:
                races.run(*(functools.partial(write, draw.randrange(2**32))
                            for _ in range(writers)))
            finally:
                ended.set()

        races.run(work, cut, lambda: follow(first, 3), lambda: follow(owned, 1),
                  lambda: (time.sleep(0.2), follow(late, 2)))
        self.assert_equal_to_the_database(first)
        self.assert_equal_to_the_database(late)
        self.assert_equal_to_the_database(owned, "red")

    def cut_a_connection(self) -> None:
        """End a connection to the database, whatever it is doing: perhaps a COMMIT."""
        if self.kind == "sqlite":
            return
        with contextlib.suppress(sa.exc.SQLAlchemyError, errors.Unavailable), sa.create_engine(
                self.database.url, poolclass=sa.NullPool).connect() as connection:
            if self.kind == "postgresql":
                connection.execute(sa.text(
                    "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                    "ORDER BY random() LIMIT 1) AS some"))
            else:
                ids = connection.execute(sa.text(
                    "SELECT id FROM information_schema.processlist WHERE db = database() "
                    "AND id <> connection_id() ORDER BY rand() LIMIT 1")).scalars().all()
                for id_ in ids:
                    connection.execute(sa.text(f"KILL {id_}"))


class TestRestored(MirrorTestCase):
    """A copy of a database takes its place, while its readers follow."""

    def setUp(self) -> None:
        super().setUp()
        self.draw = random.Random(3)
        self.write(self.draw, 10)

    @contextlib.contextmanager
    def lost(self) -> Iterator[None]:
        """Undo what is written meanwhile, as a restore does."""
        path = self.database.url.database
        with contextlib.closing(sqlite3.connect(path)) as here, contextlib.closing(
                sqlite3.connect(":memory:")) as copy:
            here.backup(copy)
            yield
            copy.backup(here)

    def test_a_mirror_begins_anew(self) -> None:
        mirror = Mirror(self)
        mirror.catch_up()
        with self.lost():
            self.write(self.draw, 5)
            mirror.catch_up()
        self.assertRaises(DatabaseReplaced, mirror.follow, 10)
        # Also when it has more transactions again than the reader has seen.
        self.write(self.draw, 30)
        self.assertRaises(DatabaseReplaced, mirror.follow, 10)
        mirror = Mirror(self)
        self.assert_equal_to_the_database(mirror)

    def test_between_two_pages_of_everything(self) -> None:
        """The first page was read before what is lost was written, and the second one after."""
        mirror = Mirror(self)
        mirror.follow(1)
        with self.lost():
            self.write(self.draw, 5)
            mirror.follow(1)
        self.assertRaises(DatabaseReplaced, mirror.follow, 1)
        self.write(self.draw, 30)
        self.assertRaises(DatabaseReplaced, mirror.follow, 1)

    def test_between_two_pages_of_changes(self) -> None:
        """Objects were as they are no more, although the changes behind the token are there."""
        mirror = Mirror(self)
        mirror.catch_up()
        consumer = factories.new_uuid()
        allocations.replace(self.ctx, [self.allocation(self.draw, consumer, None)])
        self.write(self.draw, 5)
        with self.lost():
            allocations.delete(self.ctx, consumer)
            self.assertTrue(mirror.follow(1))
        self.assertRaises(DatabaseReplaced, mirror.follow, 1)

    def test_nothing_was_lost_that_a_reader_saw(self) -> None:
        mirror, changed = Mirror(self), Mirror(self)
        changed.catch_up()
        self.write(self.draw, 5)
        for reader in (mirror, changed):
            self.assertTrue(reader.follow(1))
        with self.lost():
            self.write(self.draw, 5)
        for reader in (mirror, changed):
            self.assert_equal_to_the_database(reader)
