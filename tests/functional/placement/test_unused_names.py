"""Projects, users, types and aggregates to which nothing refers: marked, later removed."""

import datetime
import itertools
import random
import threading

import fixtures
import sqlalchemy as sa

from placement_core.placement import aggregates, allocations, tables, unused_names
from placement_core.placement.allocations import usage_counters
from placement_core.placement.allocations.owners import Owners
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement import claims

_marks, _projects = tables.unused_names, tables.projects
_HOUR = 3600


class NamesTestCase(claims.ClaimsTestCase):
    """A test with a host, and a row of each kind that is there for its high id alone."""

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=10_000)

    def use(self, project="gone", *, owners=None, **options):
        consumer = factories.new_uuid()
        write = self.write({self.host: {"VCPU": 1}}, consumer=consumer, project=project, **options)
        allocations.replace(self.context(), [write], owners=owners or self.owners)
        return consumer

    def use_once(self, *names):
        """Let projects, with a user and a type of each name, use something for a moment."""
        for name in names:
            allocations.delete(self.context(), self.use(name, user=name, kind=f"TYPE_{name}"))
        usage_counters.fold(self.context())

    def run_sql(self, *statements):
        with self.database.writer.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    def age(self, hours):
        """Let time pass since rows were marked."""
        with self.database.writer.begin() as connection:
            for row in connection.execute(sa.select(_marks)).all():
                connection.execute(
                    sa.update(_marks).where(_marks.c.kind == row.kind,
                                            _marks.c.row_id == row.row_id)
                    .values(since=row.since - datetime.timedelta(hours=hours)))

    def remove(self):
        return unused_names.remove(self.context())

    def names(self, table=_projects, column="external_id"):
        with self.database.autocommit.connect() as connection:
            return set(connection.execute(sa.select(table.c[column])).scalars())

    def marked(self, kind="projects"):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(_marks).where(
                _marks.c.kind == kind))

    def pause_at(self, paused, start, *, engine=None):
        """Let the calling thread wait before its next statement that begins like this."""
        thread = threading.get_ident()

        def listen(_connection, _cursor, statement, *_rest):
            if threading.get_ident() == thread and statement.lstrip().startswith(start):
                paused.here()

        engine = engine or self.database.writer
        sa.event.listen(engine, "before_cursor_execute", listen)
        self.addCleanup(sa.event.remove, engine, "before_cursor_execute", listen)


@databases.on_each_database
class TestRemoval(NamesTestCase):

    def test_a_day_after_they_were_found_unused(self):
        stays = self.use("stays", user="stays", kind="TYPE_stays")
        self.use_once("a", "b", "last")
        self.assertEqual(0, self.remove())
        # The last one is never marked.
        self.assertEqual([2, 2, 2], [self.marked(kind) for kind in (
            "projects", "users", "consumer_types")])
        self.age(23)
        self.assertEqual(0, self.remove())
        self.age(2)
        self.assertEqual(6, self.remove())
        for table, column, prefix in (
                (_projects, "external_id", ""), (tables.users, "external_id", ""),
                (tables.consumer_types, "name", "TYPE_")):
            self.assertEqual({f"{prefix}stays", f"{prefix}last"}, self.names(table, column))
        self.assertEqual(0, self.marked())
        self.assertEqual(0, self.remove())
        allocations.delete(self.ctx, stays)
        # Its counters are there until they are folded.
        self.remove()
        self.assertEqual(0, self.marked())
        usage_counters.fold(self.ctx)
        self.remove()
        self.assertEqual(1, self.marked())

    def test_what_is_used_again_is_not_marked_any_more(self):
        self.use_once("gone", "last")
        self.remove()
        consumer = self.use("gone")
        self.age(25)
        # The claim was made by another user, of another type.
        self.assertEqual(2, self.remove())
        self.assertEqual(0, self.marked())
        self.assertIn("gone", self.names())
        allocations.delete(self.ctx, consumer)
        self.use_once("gone")
        self.remove()
        self.age(25)
        self.remove()
        self.assertNotIn("gone", self.names())

    def test_ids_are_not_used_again(self):
        """SQLite gives the id of a removed row to the next one, if it was the highest."""
        seen = {}
        for turn in range(3):
            names = [f"{turn}-{number}" for number in range(3)]
            self.use_once(*names)
            with self.database.autocommit.connect() as connection:
                for row in connection.execute(sa.select(_projects)):
                    self.assertEqual(row.external_id, seen.setdefault(row.id, row.external_id))
            for _ in range(2):
                self.remove()
                self.age(25)
            self.remove()
        self.assertEqual({"2-2"}, self.names())

    def test_many(self):
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.placement.unused_names._BATCH", 3))
        self.useFixture(fixtures.MonkeyPatch("placement_core.placement.unused_names._PAGE", 4))
        self.run_sql(*(sa.insert(_projects).values(external_id=f"p{number}")
                       for number in range(20)))
        self.remove()
        self.assertEqual(19, self.marked())
        self.age(25)
        self.assertEqual(19, self.remove())

    def test_aggregates(self):
        # They are inserted in this order.
        first, second, last = uuids = sorted(factories.new_uuid() for _ in range(3))
        provider = factories.provider(self.ctx, aggregates=uuids)
        self.assertEqual(0, self.remove() + self.marked("placement_aggregates"))
        aggregates.replace_for_provider(self.ctx, provider.uuid, [second], generation=None)
        self.remove()
        self.assertEqual(1, self.marked("placement_aggregates"))
        self.age(13)
        # A stale mark is deleted by who names the aggregate again.
        aggregates.replace_for_provider(self.ctx, provider.uuid, [first], generation=None)
        self.assertEqual(0, self.marked("placement_aggregates"))
        self.remove()
        self.age(25)
        self.assertEqual(1, self.remove())
        self.assertEqual({first, last}, self.names(tables.placement_aggregates, "uuid"))
        aggregates.replace_for_provider(self.ctx, provider.uuid, uuids, generation=None)
        self.assertEqual(set(uuids), set(
            aggregates.list_for_provider(self.ctx, provider.uuid).uuids))

    def test_consumers_that_move_refer_to_their_project(self):
        self.use_once("gone", "last")
        ids = (sa.select(table.c.id).where(table.c.external_id == "gone").scalar_subquery()
               for table in (_projects, tables.users))
        self.run_sql(sa.insert(tables.moves).values(
            consumer_uuid="m", resource_class_id=tables.CONSUMERS_ID, moved_from="c",
            used=1, **dict(zip(("project_id", "user_id"), ids, strict=True))))
        self.remove()
        self.assertEqual([0, 0], [self.marked(kind) for kind in ("projects", "users")])
        self.run_sql(sa.delete(tables.moves))


@databases.on_each_database
class TestWriters(NamesTestCase):
    """Claims beside the removal of their project."""

    def setUp(self):
        super().setUp()
        self.use_once("gone", "last")
        self.remove()

    def project_of(self, consumer):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(_projects.c.external_id)
                .join(tables.consumers, tables.consumers.c.project_id == _projects.c.id)
                .where(tables.consumers.c.uuid == consumer))

    def test_a_mark_is_deleted_once_it_is_stale(self):
        for hours, left in ((11, 1), (2, 0)):
            self.age(hours)
            Owners().ensure(self.context(), [self.write({self.host: {"VCPU": 1}}, project="gone")])
            self.assertEqual(left, self.marked())
        self.age(25)
        self.remove()
        self.assertIn("gone", self.names())

    def test_a_look_is_not_relied_on_for_ever(self):
        now = [0.0]
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.placement.allocations.owners.time.monotonic", lambda: now[0]))
        owners = Owners()
        write = self.write({self.host: {"VCPU": 1}}, project="gone")
        owners.ensure(self.context(), [write])
        self.age(13)
        for seconds, left in ((unused_names.TRUSTED_SECONDS - 1, 1), (2, 0)):
            now[0] += seconds
            owners.ensure(self.context(), [write])
            self.assertEqual(left, self.marked())

    def test_who_knows_the_row_inserts_it_again(self):
        self.age(25)
        self.remove()
        self.assertNotIn("gone", self.names())
        self.assertEqual("gone", self.project_of(self.use("gone", user="gone")))

    def test_a_claim_while_the_row_is_about_to_go(self):
        """The claim keeps it, or inserts it again: the removal decides at its last statement."""
        self.age(25)

        def remove(paused):
            self.pause_at(paused, "DELETE FROM unused_names WHERE unused_names.kind")
            return self.remove()

        with races.Paused(remove) as paused:
            consumer = paused.against(self.database, lambda: self.use("gone", owners=Owners()))
        self.assertIsInstance(consumer, str)
        self.assertIsInstance(paused.outcome, int)
        self.assertEqual("gone", self.project_of(consumer))

    def test_a_claim_while_the_row_is_gone_but_for_the_commit(self):
        self.age(25)

        def remove(paused):
            thread = threading.get_ident()

            def listen(_connection):
                if threading.get_ident() == thread and removing.is_set():
                    paused.here()

            def notice(_connection, _cursor, statement, *_rest):
                if threading.get_ident() == thread and statement.startswith("DELETE FROM unused"):
                    removing.set()

            removing = threading.Event()
            for name, function in (("commit", listen), ("before_cursor_execute", notice)):
                sa.event.listen(self.database.writer, name, function)
                self.addCleanup(sa.event.remove, self.database.writer, name, function)
            return self.remove()

        with races.Paused(remove) as paused:
            consumer = paused.against(self.database, lambda: self.use("gone", owners=Owners()))
        self.assertEqual("gone", self.project_of(consumer))

    def test_a_removal_while_ids_of_projects_are_looked_up(self):
        """Before whichever statement it happens, none is missing, and each is that of a row."""
        for number in itertools.count(1):
            self.use_once("gone", f"last-{number}")
            self.remove()
            self.age(25)
            with races.Interruption(self.database.autocommit, number, self.remove) as removal:
                names = {"gone", f"new-{number}"}
                ids = Owners().project_ids(self.context(), names)
            with self.database.autocommit.connect() as connection:
                rows = {row.external_id: row.id
                        for row in connection.execute(sa.select(_projects))}
            self.assertEqual({name: rows.get(name) for name in names}, ids)
            if not removal.happened:
                break
        self.assertGreater(number, 2)

    def test_a_claim_in_flight(self):
        """It found the row before the mark was stale, and commits when the mark has long been."""
        self.age(11)

        def claim(paused):
            self.pause_at(paused, "INSERT INTO allocations")
            return self.use("gone", owners=Owners())

        if self.kind == "sqlite":  # one writer at a time
            return
        with races.Paused(claim) as paused:
            self.age(12)
            self.remove()
        self.assertEqual("gone", self.project_of(paused.outcome))
        self.age(25)
        self.remove()
        self.assertEqual("gone", self.project_of(paused.outcome))

    def test_beside_many_claims(self):
        """Projects come and go while several managers remove what has been marked for a day."""
        done = threading.Event()
        turns = [0] * 3

        def come_and_go(number):
            chance = random.Random(number)
            for turns[number] in range(1, 13):
                name = f"project-{chance.randrange(3)}"
                consumer = self.use(name, user=name, owners=Owners())
                self.assertEqual(name, self.project_of(consumer))
                allocations.delete(self.context(), consumer)
                if chance.random() < 0.2:
                    done.wait(1)

        def claim():
            outcomes = races.run(*(lambda n=n: come_and_go(n) for n in range(3)))
            done.set()
            self.assertEqual([None] * 3, outcomes)

        def remove():
            while not done.is_set():
                usage_counters.fold(self.context())
                self.remove()

        def age():
            before = [0] * 3
            while not done.wait(0.1):
                # No claim takes longer than a look may be relied on.
                if all(now != then for now, then in zip(turns, before, strict=True)):
                    before = list(turns)
                    self.age(6)

        self.assertEqual([None] * 4, races.run(claim, remove, remove, age))
        self.age(25)
        self.assert_audit_clean()
