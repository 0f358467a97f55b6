"""The change log a day after the last writes."""

import datetime

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, pruning, tables, vector
from placement_core.changes.follower import Follower, Version
from placement_core.placement import tables as placement_tables
from tests import base, databases, races

_changes, _written = tables.changes, placement_tables.projects.c.external_id


@databases.on_each_database
class TestOldChanges(base.DatabaseTestCase):

    def touch(self, *refs):
        with db.write(self.context()) as session:
            for ref in refs:
                session.record_change(kinds.PROVIDER, ref)

    def age(self, hours):
        # Row by row: in one transaction, two that do so beside each other may deadlock.
        with self.database.autocommit.connect() as connection:
            for row in connection.execute(sa.select(_changes)).all():
                connection.execute(sa.update(_changes).where(
                    _changes.c.slot == row.slot, _changes.c.serial == row.serial,
                    _changes.c.position == row.position,
                ).values(created_at=row.created_at - datetime.timedelta(hours=hours)))

    def refs(self):
        with self.database.autocommit.connect() as connection:
            return sorted(connection.execute(sa.select(_changes.c.ref)).scalars())

    def now(self):
        with db.read(self.context()) as session:
            return vector.read_current(session)

    def test_all_but_the_last_of_each_slot(self):
        def write(first):
            for ref in range(first, first + 5):
                self.touch(ref, -ref)

        races.run(*(lambda first=first: write(first) for first in (10, 20, 30)))
        self.assertEqual(0, pruning.remove_old(self.context()))
        self.age(23)
        self.assertEqual(0, pruning.remove_old(self.context()))
        self.age(2)
        self.touch(99)
        self.useFixture(fixtures.MonkeyPatch("placement_core.changes.pruning._BATCH", 2))
        # This thread has another slot than the three, or one of theirs.
        removed = pruning.remove_old(self.context())
        self.assertEqual(31 - len(self.refs()), removed)
        self.assertIn(removed, (24, 26))
        self.assertEqual(0, pruning.remove_old(self.context()))

    def test_readers(self):
        """One who knows the last transaction goes on; one who does not has to load all."""
        self.touch(1)
        behind = self.now()
        self.touch(2)
        self.touch(3)
        level = self.now()
        self.age(25)
        self.assertEqual(2, pruning.remove_old(self.context()))
        self.assertEqual([3], self.refs())
        for seen, changed in ((level, set()), (behind, None)):
            self.assertEqual(changed, vector.follow(self.context(), seen)[1])
        self.touch(4)
        self.assertEqual({(kinds.PROVIDER, 4)}, vector.follow(self.context(), level)[1])
        self.assertIsNone(vector.follow(self.context(), behind)[1])

    def test_a_follower_beside_writers_and_managers(self):
        def refresh(ctx, before):
            if before is not None:
                now, changed = vector.follow(ctx, before.vector)
                if changed is not None:
                    return Version(now, before.value | {ref for _, ref in changed})
            with db.read(ctx) as session:
                return Version(vector.read_current(session), set(
                    map(int, session.execute(sa.select(_written)).scalars())))

        committed = []
        follower = Follower(self.database, refresh, "test")

        def write():
            for ref in range(40):
                with db.write(self.context()) as session:
                    session.execute(
                        sa.insert(_written.table).inline(), {"external_id": str(ref)})
                    session.record_change(kinds.PROVIDER, ref)
                committed.append(ref)

        def remove():
            for _ in range(10):
                self.age(25)
                pruning.remove_old(self.context())

        def read():
            while len(committed) < 40:
                before = set(committed)
                self.assertLessEqual(before, follower.present(self.context()).value)

        self.assertEqual([None] * 4, races.run(write, remove, remove, read))
        self.assertEqual(set(range(40)), follower.present(self.context()).value)
