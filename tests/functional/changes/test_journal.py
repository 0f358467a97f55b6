import datetime
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, tables, vector
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placement_tables
from tests import base, databases, races


@databases.on_each_database
class TestJournal(base.DatabaseTestCase):

    def touch(self, *refs, ctx=None, kind=kinds.PROVIDER):
        with db.write(ctx or self.ctx) as session:
            for ref in refs:
                session.record_change(kind, ref)
        return session

    def share_one_slot(self):
        """Let every thread write to the slot of this one."""
        shared = self.database.journal.slot()
        self.database.journal.slot = lambda: shared
        self.database.journal.notice_commit = lambda *_anything: None

    def now(self):
        with db.read(self.context()) as session:
            return vector.read_current(session)

    def since(self, seen):
        with db.read(self.context()) as session:
            now = vector.read_current(session)
            changed = vector.read_changes(session, seen, now)
        self.assertEqual((now, changed), vector.follow(self.context(), seen))
        return changed

    def digest(self):
        return vector.read_digest(self.context())

    def rows(self):
        with self.database.autocommit.connect() as connection:
            return connection.execute(sa.select(tables.changes)).all()

    def test_what_was_touched_is_found(self):
        seen, digest = self.now(), self.digest()
        self.assertEqual(digest, seen.digest)
        self.assertEqual(set(), self.since(seen))
        self.touch(1, 2, 1)
        self.touch(3, kind=kinds.TRAIT)
        self.assertNotEqual(digest, self.digest())
        self.assertEqual({("provider", 1), ("provider", 2), ("trait", 3)}, self.since(seen))
        middle = self.now()
        self.touch(4)
        self.assertEqual({("provider", 4)}, self.since(middle))
        self.assertEqual(self.digest(), self.now().digest)

    def test_many_rows_of_one_transaction(self):
        seen = self.now()
        self.touch(*range(175))
        self.assertEqual({("provider", ref) for ref in range(175)}, self.since(seen))
        found = self.rows()
        self.assertEqual(list(range(175)), sorted(row.position for row in found))
        self.assertEqual(1, len({(row.slot, row.serial, row.txn) for row in found}))

    def test_more_than_anybody_follows_is_loaded(self):
        self.addCleanup(setattr, vector, "_MOST_CHANGES", vector._MOST_CHANGES)
        vector._MOST_CHANGES = 10
        seen = self.now()
        self.touch(*range(9))
        self.assertEqual(9, len(self.since(seen)))
        self.touch(9)
        self.assertIsNone(self.since(seen))

    def test_a_slot_that_nobody_saw_yet_is_read_from_its_beginning(self):
        slot = self.database.journal.slot()
        seen = self.now()
        unaware = vector.Vector({
            each: head for each, head in seen.heads.items() if each != slot})
        self.touch(1)
        self.assertEqual({("provider", 1)}, self.since(unaware))

    def test_indexes_need_not_read_other_kinds(self):
        """They learn nothing of them, and miss nothing for them."""
        self.touch(9)
        seen = self.now()
        self.touch(1, kind=kinds.CONSUMER)
        middle = self.now()
        self.touch(2, kind=kinds.CLAIM)
        self.touch(3)
        for before in (seen, middle):
            self.assertEqual({("provider", 3)}, self.since(before))
        unaware = vector.Vector({
            slot: head for slot, head in seen.heads.items()
            if slot != self.database.journal.slot()})
        self.assertEqual({("provider", 9), ("provider", 3)}, self.since(unaware))

    def test_names_of_what_was_deleted(self):
        with db.write(self.ctx) as session:
            session.record_change(kinds.TRAIT, 7, name="CUSTOM_GOLD")
            session.record_change(kinds.CONSUMER, uuid="a-b", project='pro"\\ject')
            session.record_change(kinds.PROVIDER, 7)
        self.assertEqual([
            (0, "consumer", 0, "a-b", None, 'pro"\\ject'),
            (1, "provider", 7, None, None, None),
            (2, "trait", 7, None, "CUSTOM_GOLD", None),
        ], sorted((row.position, row.kind, row.ref, row.uuid, row.name, row.project)
                  for row in self.rows()))

    def test_nothing_touched_nothing_written(self):
        digest = self.digest()
        self.touch()
        self.assertEqual(digest, self.digest())

    def test_what_was_undone_is_not_found(self):
        seen = self.now()

        def fail():
            with db.write(self.ctx) as session:
                session.record_change(kinds.PROVIDER, 1)
                raise KeyError

        self.assertRaises(KeyError, fail)
        self.assertEqual(set(), self.since(seen))

    def test_each_thread_has_a_slot(self):
        seen = self.now()
        contexts = [self.context() for _ in range(6)]
        races.run(*(lambda ctx=ctx, ref=ref: self.touch(ref, ctx=ctx)
                    for ref, ctx in enumerate(contexts)))
        self.assertEqual(6, len({row.slot for row in self.rows()}))
        self.assertEqual({("provider", ref) for ref in range(6)}, self.since(seen))

    def test_serials_of_a_slot_come_in_the_order_of_commits(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite has one writer at a time")
        self.share_one_slot()
        ended = []

        def first(paused):
            with db.write(self.context()) as session:
                session.record_change(kinds.PROVIDER, 1)
                self.database.journal.append(session)
                session.recorded_changes.clear()
                paused.here()
                ended.append(1)

        def second():
            self.touch(2, ctx=self.context())
            ended.append(2)

        with races.Paused(first) as paused:
            paused.against(self.database, second)
        self.assertEqual([1, 2], ended)
        self.assertEqual([(1, 1), (2, 2)],
                         sorted((row.serial, row.ref) for row in self.rows()))

    def test_pruned_or_replaced_tails_are_noticed(self):
        for ref in range(3):
            self.touch(ref)
        seen = self.now()
        self.touch(9)
        slot = self.database.journal.slot()
        here = tables.changes.c.slot == slot
        with self.database.writer.begin() as connection:
            connection.execute(sa.update(tables.changes).where(
                here, tables.changes.c.serial == 3).values(txn=12345))
        self.assertIsNone(self.since(seen))
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.changes).where(
                here, tables.changes.c.serial <= 3))
        self.assertIsNone(self.since(seen))
        with self.database.writer.begin() as connection:
            connection.execute(sa.update(tables.change_heads).where(
                tables.change_heads.c.slot == slot).values(serial=1, txn=1))
        self.assertIsNone(self.since(seen))

    def always_prune(self, keep_seconds, **bounds):
        """Prune after each transaction, and keep changes for a short time."""
        for name, value in {"_PRUNE_EVERY": 1, **bounds}.items():
            self.useFixture(fixtures.MonkeyPatch(f"placement_core.changes.journal.{name}", value))
        self.database.journal._keep_seconds = keep_seconds

    def insert_old(self, slot, serials):
        """Insert transactions of some days ago."""
        with self.database.writer.begin() as connection:
            connection.execute(sa.insert(tables.changes), [
                {"slot": slot, "serial": serial, "position": position, "txn": 1, "kind": "trait",
                 "ref": 1, "created_at": utcnow() - datetime.timedelta(days=3)}
                for serial in serials for position in (0, 1)])
            connection.execute(
                sa.update(tables.change_heads).where(tables.change_heads.c.slot == slot)
                .values(serial=serials[-1]))

    def serials(self, slot):
        return sorted({row.serial for row in self.rows() if row.slot == slot})

    def test_writers_prune(self):
        """What is old, but for the last of it: a reader may stand right behind it."""
        self.always_prune(keep_seconds=86_400)
        slot = self.database.journal.slot()
        self.insert_old(slot, (1, 2, 10))
        for ref in range(4):
            self.touch(ref)
        self.assertEqual([10, 11, 12, 13, 14], self.serials(slot))
        self.assertEqual({("provider", 3)}, self.since(vector.Vector({
            **self.now().heads, slot: self.head(slot, 13)})))

    def head(self, slot, serial):
        [txn] = {row.txn for row in self.rows() if (row.slot, row.serial) == (slot, serial)}
        return serial, txn

    def test_what_was_never_pruned_goes_by_and_by(self):
        """Nobody waits for the removal of all that is old."""
        self.always_prune(keep_seconds=86_400, _PRUNED_SERIALS=101)
        slot = self.database.journal.slot()
        self.insert_old(slot, range(1, 251))
        for left in (151, 52, 4, 5):
            self.touch(1)
            self.assertEqual(left, len(self.serials(slot)))

    def test_writers_prune_slots_that_nobody_writes_to(self):
        """Without a manager, what threads left behind goes, too."""
        self.always_prune(keep_seconds=86_400)
        self.useFixture(fixtures.MonkeyPatch("placement_core.changes.journal.tables.SLOTS", 4))
        own = self.database.journal.slot() % 4
        self.database.journal.slot = lambda: own
        others = [slot for slot in range(4) if slot != own]
        for slot in others:
            self.insert_old(slot, (1, 2, 3))
        for _ in range(200):
            self.touch(1)
            if all(self.serials(slot) == [3] for slot in others):
                break
        self.assertEqual([[3]] * 3, [self.serials(slot) for slot in others])

    def test_readers_while_it_is_pruned(self):
        """What was committed before a reader asks it learns, or that it has to load all."""
        # Everything but the last is older than that.
        self.always_prune(keep_seconds=-3600)
        self.useFixture(fixtures.MonkeyPatch("placement_core.changes.journal.tables.SLOTS", 4))
        committed, ended = set(), []
        #: Set when the slow reader had to load all. Writers go on until then.
        overtaken = threading.Event()
        written = placement_tables.projects.c.external_id

        def write(first):
            for ref in range(first, first + 1000):
                if ref >= first + 25 and overtaken.is_set():
                    break
                with db.write(self.context()) as session:
                    session.execute(
                        sa.insert(placement_tables.projects), {"external_id": str(ref)})
                    session.record_change(kinds.PROVIDER, ref)
                committed.add(ref)
            ended.append(first)

        def load():
            with db.read(self.context()) as session:
                return set(map(int, session.execute(sa.select(written)).scalars()))

        def read(patience):
            ctx, seen, known, answers = self.context(), self.now(), load(), []
            while len(ended) < 4:
                before = set(committed)
                seen, changed = vector.follow(ctx, seen)
                answers.append(changed is None)
                if patience and changed is None:
                    overtaken.set()
                known |= load() if changed is None else {ref for _, ref in changed}
                if not before <= known:
                    return before - known
                time.sleep(patience)
            return set(answers)

        found = races.run(*(lambda first=first: write(first) for first in range(0, 4000, 1000)),
                          lambda: read(0), lambda: read(0.2))
        for answers in found[4:]:
            self.assertLessEqual(answers, {True, False})
        self.assertIn(True, found[5])

    def test_whether_a_transaction_landed(self):
        landed = self.touch(1)
        self.assertTrue(self.database.journal.was_committed(self.database, landed, 10))
        self.touch(2)
        self.assertTrue(self.database.journal.was_committed(self.database, landed, 10))
        lost = db.Session(
            self.database.writer.connect(), self.database.compiled, writing=True)
        self.addCleanup(lost.connection.close)
        lost.record_change(kinds.PROVIDER, 7)
        seen = self.now()
        self.assertFalse(self.database.journal.was_committed(self.database, lost, 10))
        # Asking leaves a mark that readers only notice, and survive.
        self.assertEqual({("provider", 7)}, self.since(seen))

    def test_asking_waits_for_the_transaction_to_end(self):
        self.share_one_slot()
        sessions = []

        def write(paused):
            with db.write(self.context()) as session:
                sessions.append(session)
                session.record_change(kinds.PROVIDER, 1)
                self.database.journal.append(session)
                paused.here()
                session.recorded_changes.clear()  # it is written already

        with races.Paused(write) as paused:
            self.assertIs(True, paused.against(
                self.database,
                lambda: self.database.journal.was_committed(self.database, sessions[0], 10)))
