import contextlib
import multiprocessing
import random
import threading
import time
import uuid as uuids

import hypothesis
import sqlalchemy as sa
from hypothesis import strategies as st

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.placement import (
    aggregates,
    errors,
    inventories,
    locks,
    providers,
    resource_classes,
    tables,
    traits,
)
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.candidates import answers, search
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.index import CapacityIndex
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base, databases, races, snapshots


def _claim(ctx, provider, resource_class, amount):
    """Use some of an inventory, as far as the index is concerned."""
    with db.write(ctx) as session:
        session.execute(
            sa.update(tables.inventories)
            .where(tables.inventories.c.resource_provider_id == provider.id,
                   tables.resource_classes.c.id == tables.inventories.c.resource_class_id,
                   tables.resource_classes.c.name == resource_class)
            .values(used=tables.inventories.c.used + amount))
        session.execute(
            sa.update(tables.resource_providers)
            .where(tables.resource_providers.c.id == provider.id)
            .values(revision=tables.resource_providers.c.revision + 1))
        session.record_change(kinds.PROVIDER, provider.id)


def _pool(ctx, provider, *, pooled=True):
    """Mark the tree of a root that has no other providers, or take its mark away."""
    with db.write(ctx) as session:
        locks.lock_providers(session, {provider.id: 0})
        reserved_trees.unmark(session, provider.id)
        if pooled:
            reserved_trees.mark(session, provider.id)


class _IndexCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.index = CapacityIndex(self.database)

    def entry(self, provider):
        snapshot = self.index.snapshot(self.ctx)
        row = snapshot.layout.row_of_uuid.get(provider.uuid)
        return None if row is None else snapshot.entry(row)

    def assert_fresh(self):
        """The index says what one says that loads everything now."""
        loaded = CapacityIndex(self.database).snapshot(self.ctx)
        self.assertEqual(
            snapshots.describe(loaded), snapshots.describe(self.index.snapshot(self.ctx)))
        self.assertEqual([], self.index.verify(self.ctx))


@databases.on_each_database
class TestFreshness(_IndexCase):

    def test_unmoved_is_the_same_world(self):
        factories.provider(self.ctx, inventory={"VCPU": 4})
        snapshot = self.index.snapshot(self.ctx)
        self.assertIs(snapshot, self.index.snapshot(self.ctx))
        factories.provider(self.ctx)
        self.assertIsNot(snapshot, self.index.snapshot(self.ctx))
        self.assertIs(self.index.snapshot(self.ctx), self.index.snapshot(self.ctx))

    def test_every_kind_of_change(self):
        ctx = self.ctx
        self.assertEqual(0, len(self.index.snapshot(ctx).layout.row_of_id))
        root = factories.provider(ctx, "root", inventory={"VCPU": 4}, traits=["HW_CPU_X86_VMX"])
        child = factories.provider(ctx, "child", parent=root)
        other = factories.provider(ctx, "other", aggregates=[str(uuids.uuid4())])
        self.assertEqual(root.uuid, self.entry(child).provider.root_uuid)

        def generation(provider):
            return providers.get(ctx, provider.uuid).generation

        aggregate = str(uuids.uuid4())
        changes = (
            lambda: providers.update(ctx, child.uuid, name="renamed", allow_reparenting=True),
            lambda: factories.provider(ctx, "grandchild", parent=child),
            lambda: providers.update(ctx, child.uuid, name="renamed", parent_uuid=other.uuid,
                                     allow_reparenting=True),
            lambda: providers.update(ctx, child.uuid, name="renamed", parent_uuid=None,
                                     allow_reparenting=True),
            lambda: inventories.create(ctx, child.uuid, "DISK_GB", InventoryValues(10),
                                       allow_fully_reserved=True),
            lambda: inventories.update(
                ctx, child.uuid, "DISK_GB", InventoryValues(20, reserved=3, allocation_ratio=2.0),
                generation=generation(child), allow_fully_reserved=True),
            lambda: _claim(ctx, child, "DISK_GB", 5),
            lambda: inventories.replace(
                ctx, root.uuid, {"MEMORY_MB": InventoryValues(512)},
                generation=generation(root), allow_fully_reserved=True),
            lambda: inventories.delete(ctx, root.uuid, "MEMORY_MB"),
            lambda: traits.ensure(ctx, "CUSTOM_FAST"),
            lambda: traits.replace_for_provider(
                ctx, root.uuid, ["CUSTOM_FAST", snapshots.SHARES], generation=generation(root)),
            lambda: aggregates.replace_for_provider(
                ctx, root.uuid, [aggregate], generation=None),
            lambda: aggregates.replace_for_provider(
                ctx, child.uuid, [aggregate], generation=None),
            lambda: traits.delete_for_provider(ctx, root.uuid),
            lambda: traits.delete(ctx, "CUSTOM_FAST"),
            lambda: resource_classes.create(ctx, "CUSTOM_CARD"),
            lambda: inventories.create(ctx, other.uuid, "CUSTOM_CARD", InventoryValues(1),
                                       allow_fully_reserved=True),
            lambda: resource_classes.rename(ctx, "CUSTOM_CARD", "CUSTOM_BOARD"),
            lambda: inventories.delete_all(ctx, other.uuid),
            lambda: resource_classes.delete(ctx, "CUSTOM_BOARD"),
            lambda: aggregates.replace_for_provider(ctx, root.uuid, [], generation=None),
            lambda: _pool(ctx, other),
            lambda: _pool(ctx, other, pooled=False),
            lambda: providers.delete(ctx, root.uuid),
        )
        for number, change in enumerate(changes):
            before = self.index.snapshot(ctx)
            change()
            self.assertIsNot(before, self.index.snapshot(ctx), f"change {number} went unseen")
            self.assert_fresh()
        self.assertIsNone(self.entry(root))

    def test_everything_in_the_rows_of_providers(self):
        """Whatever a name has in it, whether all were loaded or one is read again."""
        names = ["a;b:c,d e", "7:1 2;8:", "\u00e9\u00fc \U0001f980", "tab\tline\nend",
                 "%s 'it' \\", "x" * 200]
        made = [factories.provider(self.ctx, name, inventory={"VCPU": 1}) for name in names]
        # More than share a row of the driver's.
        with db.write(self.ctx) as session:
            for number in range(300):
                session.execute(sa.insert(tables.resource_providers).values(
                    uuid=str(uuids.uuid4()), name=f"more{number}", generation=number,
                    root_provider_id=made[0].id))
        self.assert_as_in_the_table(CapacityIndex(self.database))
        self.assert_as_in_the_table(self.index)
        for provider in made:
            providers.update(
                self.ctx, provider.uuid, name=f"{provider.name[:190]}; new",
                allow_reparenting=True)
        self.assert_as_in_the_table(self.index)
        self.assert_fresh()

    def assert_as_in_the_table(self, index):
        snapshot = index.snapshot(self.ctx)
        with db.read(self.ctx) as session:
            rows = session.execute(sa.select(tables.resource_providers)).all()
        self.assertEqual(len(rows), len(snapshot.layout.row_of_uuid))
        for row in rows:
            provider = snapshot.entry(snapshot.layout.row_of_uuid[row.uuid]).provider
            self.assertEqual(
                (row.id, row.uuid, row.name, row.generation, row.created_at, row.updated_at),
                (provider.id, provider.uuid, provider.name, provider.generation,
                 provider.created_at, provider.updated_at))

    def test_renamed_class_in_an_answer(self):
        resource_classes.create(self.ctx, "CUSTOM_CARD")
        factories.provider(self.ctx, inventory={"CUSTOM_CARD": 3})
        for name in ("CUSTOM_CARD", "CUSTOM_BOARD"):
            snapshot = self.index.snapshot(self.ctx)
            request = CandidatesRequest((RequestGroup("", {name: 1}),))
            body = answers.render(snapshot, request, search.find(snapshot, request))
            self.assertEqual(2, body.count(name.encode()))
            if name == "CUSTOM_CARD":
                resource_classes.rename(self.ctx, name, "CUSTOM_BOARD")

    def test_capacity_beyond_64_bits_is_exact(self):
        made = factories.provider(self.ctx, inventory={
            "VCPU": InventoryValues(1000, allocation_ratio=1e30), "DISK_GB": 5})
        found = {each.class_id: each.capacity for each in self.entry(made).inventories}
        names = self.index.snapshot(self.ctx).names.class_ids
        self.assertEqual({names["VCPU"]: int(1000 * 1e30), names["DISK_GB"]: 5}, found)

    def test_question_leaves_an_open_transaction_alone(self):
        """What is not committed is not in the snapshot, not even for its writer."""
        made = factories.provider(self.ctx, inventory={"VCPU": 4})
        self.index.snapshot(self.ctx)
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.resource_providers)
                .where(tables.resource_providers.c.id == made.id).values(name="not yet"))
            session.record_change(kinds.PROVIDER, made.id)
            self.assertEqual(made.name, self.entry(made).provider.name)
        self.assertEqual("not yet", self.entry(made).provider.name)

    def test_falling_far_behind(self):
        """More changes than are read one by one, and changes that are pruned."""
        made = [factories.provider(self.ctx, inventory={"VCPU": 100}) for _ in range(3)]
        self.index.snapshot(self.ctx)
        for number in range(20):
            _claim(self.ctx, made[number % 3], "VCPU", 1)
        with db.write(self.ctx) as session:
            session.execute(sa.text("DELETE FROM changes"))
        factories.provider(self.ctx)
        self.assert_fresh()

    def test_verify_reports_what_was_not_touched(self):
        made = factories.provider(self.ctx)
        self.index.snapshot(self.ctx)
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.resource_providers)
                .where(tables.resource_providers.c.id == made.id).values(revision=77))
        self.assertEqual([made.id], self.index.verify(self.ctx))

    @hypothesis.settings(
        deadline=None, max_examples=4, database=None,
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.integers(0, 2**32).map(random.Random))
    def test_refreshed_equals_loaded(self, chance):
        for _ in range(chance.randint(4, 10)):
            for _ in range(chance.choice((1, 1, 3))):
                self.write_something(chance)
            self.assert_fresh()

    def write_something(self, chance):
        ctx = self.ctx
        with db.read(ctx) as session:
            known = session.execute(
                sa.select(tables.resource_providers.c.uuid).order_by("uuid")).scalars().all()
        if not known or chance.random() < 0.3:
            factories.provider(
                ctx, parent=chance.choice([None, *known]),
                inventory={"VCPU": chance.randint(1, 9), "DISK_GB": 5})
            return
        one = providers.get(ctx, chance.choice(known))
        with contextlib.suppress(
                errors.ProviderHasChildren, errors.ProviderNotSaved, errors.ProviderReserved):
            chance.choice((
                lambda: providers.delete(ctx, one.uuid),
                lambda: providers.update(
                    ctx, one.uuid, name=f"n{chance.random()}",
                    parent_uuid=chance.choice([None, *known]), allow_reparenting=True),
                lambda: inventories.replace(
                    ctx, one.uuid,
                    {name: InventoryValues(chance.randint(1, 99))
                     for name in ("VCPU", "MEMORY_MB", "DISK_GB") if chance.random() < 0.5},
                    generation=one.generation, allow_fully_reserved=True),
                lambda: traits.replace_for_provider(
                    ctx, one.uuid,
                    chance.sample([snapshots.SHARES, "HW_CPU_X86_VMX", "HW_CPU_X86_SGX"], 2),
                    generation=one.generation),
                lambda: aggregates.replace_for_provider(
                    ctx, one.uuid, [snapshots.uuid_of(chance.randint(1, 3))], generation=None),
                lambda: _claim(ctx, one, "VCPU", 1),
                lambda: _pool(ctx, one, pooled=one.parent_uuid is None and chance.random() < 0.7),
            ))()


@databases.on_each_database
class TestManyReaders(_IndexCase):

    def test_two_indexes(self):
        """As two processes: each sees what was written through the other."""
        other = CapacityIndex(self.database)
        made = factories.provider(self.ctx, inventory={"VCPU": 100})
        for used in range(1, 6):
            _claim(self.ctx, made, "VCPU", 1)
            for index in (self.index, other):
                snapshot = index.snapshot(self.context())
                entry = snapshot.entry(snapshot.layout.row_of_uuid[made.uuid])
                self.assertEqual([used], [each.used for each in entry.inventories])

    def test_a_pooled_tree_is_left_out_at_once(self):
        """By every process: who begins later, and who has known the tree for long."""
        hosts = [factories.provider(self.ctx, inventory={"VCPU": 4}) for _ in range(2)]
        other = CapacityIndex(self.database)
        request = CandidatesRequest((RequestGroup("", {"VCPU": 1}),))

        def assert_found(*expected):
            for index in (self.index, other, CapacityIndex(self.database)):
                snapshot = index.snapshot(self.context())
                found = {snapshot.entry(row).provider.uuid
                         for row, in search.find(snapshot, request, exclude_reserved=True)}
                self.assertEqual({each.uuid for each in expected}, found)

        assert_found(*hosts)
        _pool(self.ctx, hosts[0])
        assert_found(hosts[1])
        _pool(self.ctx, hosts[0], pooled=False)
        assert_found(*hosts)

    def test_held_back_commit(self):
        """A slow COMMIT hides nothing of those that overtake it, nor itself later."""
        slow = factories.provider(self.ctx, "slow", inventory={"VCPU": 10})
        fast = factories.provider(self.ctx, "fast", inventory={"VCPU": 10})
        self.index.snapshot(self.ctx)
        ctx = self.context()

        def hold_back(paused):
            with db.write(ctx) as session:
                session.execute(
                    sa.update(tables.resource_providers)
                    .where(tables.resource_providers.c.id == slow.id).values(name="at last"))
                session.record_change(kinds.PROVIDER, slow.id)
                # SQLite has one writer: there nobody can overtake.
                if self.kind != "sqlite":
                    ctx.database.journal.append(session)
                    session.recorded_changes.clear()
                paused.here()

        with races.Paused(hold_back):
            if self.kind != "sqlite":
                for name in ("a", "b", "c"):
                    providers.update(self.ctx, fast.uuid, name=name, allow_reparenting=True)
                    self.assertEqual(name, self.entry(fast).provider.name)
            self.assertEqual("slow", self.entry(slow).provider.name)
        self.assertEqual("at last", self.entry(slow).provider.name)
        self.assert_fresh()

    def test_threads_never_see_the_past(self):
        """Each reader finds every write that was acknowledged before it asked."""
        made = factories.provider(self.ctx, inventory={"VCPU": 10**6})
        acknowledged = 0
        over = threading.Event()

        def write():
            nonlocal acknowledged
            ctx = self.context()
            for _ in range(25):
                _claim(ctx, made, "VCPU", 1)
                acknowledged += 1
            over.set()

        def read():
            ctx = self.context()
            seen = []
            while not over.is_set():
                least = acknowledged
                snapshot = self.index.snapshot(ctx)
                used = snapshot.entry(snapshot.layout.row_of_uuid[made.uuid]).inventories[0].used
                seen.append((least, used))
            return [(least, used) for least, used in seen if used < least]

        outcomes = races.run(write, read, read, read)
        self.assertEqual([None, [], [], []], outcomes)

    def test_a_load_that_began_earlier_serves_nobody(self):
        """Who comes while a load runs waits for the next one, which serves all."""
        made = factories.provider(self.ctx, inventory={"VCPU": 10})
        loads = []
        original = vector.read_current

        def current(session):
            now = original(session)
            loads.append(now)
            if len(loads) == 1:
                paused.here()
            return now

        self.useFixture(_Patched(vector, "read_current", current))
        paused = races.Paused(lambda _: self.index.snapshot(self.context()))
        with paused:
            _claim(self.ctx, made, "VCPU", 3)
            seen = []
            threads = [
                threading.Thread(target=lambda: seen.append(self.index.snapshot(self.context())))
                for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            self.assertEqual([], seen)
        for thread in threads:
            thread.join(30)
        self.assertEqual(4, len(seen))
        for snapshot in seen:
            entry = snapshot.entry(snapshot.layout.row_of_uuid[made.uuid])
            self.assertEqual(3, entry.inventories[0].used)
        self.assertLessEqual(len(loads), 3)

    def test_failed_load_fails_only_its_caller(self):
        factories.provider(self.ctx)
        original = vector.read_current
        outcomes = iter((ValueError("no"),))

        def current(session):
            error = next(outcomes, None)
            if error is not None:
                raise error
            return original(session)

        self.useFixture(_Patched(vector, "read_current", current))
        self.assertRaises(ValueError, self.index.snapshot, self.ctx)
        self.assertEqual(1, len(self.index.snapshot(self.ctx).layout.row_of_id))

    def test_fork(self):
        made = factories.provider(self.ctx, inventory={"VCPU": 10})
        self.index.snapshot(self.ctx)
        mine, childs = multiprocessing.get_context("fork").Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=_ask_in_child, args=(self, made, childs))
        # The lock is taken while the process forks.
        with self.index._follower._condition:
            child.start()
        _claim(self.ctx, made, "VCPU", 4)
        mine.send("look")
        self.assertTrue(mine.poll(30), "the child is stuck")
        self.assertEqual(4, mine.recv())
        child.join(30)


def _ask_in_child(case, made, pipe):
    pipe.recv()
    snapshot = case.index.snapshot(case.context())
    pipe.send(snapshot.entry(snapshot.layout.row_of_uuid[made.uuid]).inventories[0].used)


class _Patched:
    """A module's function, replaced for one test."""

    def __init__(self, module, name, value):
        self.module, self.name, self.value = module, name, value

    def setUp(self):
        self.original = getattr(self.module, self.name)
        setattr(self.module, self.name, self.value)

    def cleanUp(self):
        setattr(self.module, self.name, self.original)

    def getDetails(self):
        return {}
