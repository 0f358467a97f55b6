"""How many statements the reads of limits take, and what they look at."""

import contextlib
import functools

import sqlalchemy as sa

from placement_core.limits import effective, history, limits, registered, users
from placement_core.limits.records import Filter
from tests import databases
from tests.functional.limits import cases


@contextlib.contextmanager
def statements(database):
    """Note every statement that is sent, and each BEGIN."""
    seen, listening = [], []

    def note(connection, *rest):
        seen.append(rest[1] if rest else "BEGIN")

    for engine in (database.snapshot, database.writer, database.autocommit):
        listening.append((engine, "before_cursor_execute"))
    for engine in (database.snapshot, database.writer):
        listening.append((engine, "begin"))
    for engine, event in listening:
        sa.event.listen(engine, event, note)
    try:
        yield seen
    finally:
        for engine, event in listening:
            sa.event.remove(engine, event, note)


@databases.on_each_database
class TestStatements(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        for number in range(20):
            self.register(f"resource{number}")
        self.limits = self.set_many(
            [self.item(self.top, number, f"resource{number}") for number in range(20)])
        self.set_user_limit(self.top, "me", 1, "resource1")

    def test_reads_take_one(self):
        top = cases.equals(project_id=self.top, service_id=self.compute, region_id=self.one)
        for read, count in (
            (functools.partial(limits.list_, filters=top), 20),
            (functools.partial(limits.list_, visible=[self.top, self.child],
                               marker=self.limits[3].id, limit=5), 5),
            (functools.partial(limits.list_, filters=[
                Filter("resource_name", "icontains", "E1")]), 11),
            (functools.partial(registered.list_, filters=top[1:]), 20),
            (functools.partial(users.list_, filters=top), 1),
            (functools.partial(history.list_, project_id=self.top), 21),
            (functools.partial(limits.get, id_=self.limits[0].id), None),
            (lambda ctx: effective.read(ctx, [self.domain, self.top], service_id=self.compute,
                                        region_id=self.one).defaults, 20),
            (lambda ctx: effective.read_user_limits(ctx, self.top, "me", service_id=self.compute,
                                           region_id=self.one), 1),
        ):
            with statements(self.database) as seen:
                found = read(self.ctx)
            # No transaction either: its BEGIN and COMMIT would be waited for.
            self.assertEqual(1, len(seen), seen)
            if count is not None:
                self.assertEqual(count, len(found))

    def test_a_batch_does_not_ask_for_each(self):
        """The catalog is asked once for each node and service, the rest is one statement each."""
        self.delete_all()
        with statements(self.database) as seen:
            self.set_many([self.item(self.top, 1, f"resource{number}") for number in range(20)],
                          model=cases.STRICT)
        self.assertLessEqual(len(seen), 16, seen)

    def delete_all(self):
        for limit in self.limits:
            self.delete(limit)


@databases.on_each_database
class TestPlans(cases.LimitsTestCase):
    """The questions that are asked all day go by an index, however many limits there are."""

    def test_lists_of_a_project(self):
        self.register("cores")
        with self.database.writer.begin() as connection:
            registered_id = connection.scalar(sa.text("SELECT id FROM registered_limits"))
            connection.execute(sa.text(
                "INSERT INTO limits (uuid, registered_limit_id, node_id, is_domain, "
                "resource_limit) VALUES (:uuid, :registered_id, :node, :no, 1)"), [
                    {"uuid": f"u{number}", "registered_id": registered_id, "no": False,
                     "node": f"node{number}"} for number in range(3000)])
        top = cases.equals(project_id="node7")
        exact = top + cases.equals(service_id=self.compute, region_id=self.one)
        for read in (
            lambda: limits.list_(self.ctx, top), lambda: limits.list_(self.ctx, exact),
            lambda: limits.list_(self.ctx, visible=["node7", "node8"]),
            lambda: effective.read(self.ctx, ["node7", "node8"], service_id=self.compute,
                                   region_id=self.one),
        ):
            self.assertFalse(self.scanned(read), read)

    def scanned(self, read):
        """Say whether a read looks at every limit."""
        plans = []
        if self.kind == "postgresql":
            self.run_sql("ANALYZE limits")

        def explain(connection, cursor, statement, parameters, *_):
            prefix = "EXPLAIN QUERY PLAN " if self.kind == "sqlite" else "EXPLAIN "
            cursor.execute(prefix + statement, parameters)
            plans.append([tuple(row) for row in cursor.fetchall()])

        sa.event.listen(self.database.autocommit, "before_cursor_execute", explain)
        try:
            read()
        finally:
            sa.event.remove(self.database.autocommit, "before_cursor_execute", explain)
        plan, = plans
        if self.kind == "sqlite":
            return any("SCAN limits" in str(row) for row in plan)
        if self.kind == "postgresql":
            return any("Seq Scan on limits" in str(row) for row in plan)
        return any(row[2] == "limits" and row[3] in ("ALL", "index") for row in plan)

    def run_sql(self, statement):
        with self.database.autocommit.connect() as connection:
            connection.exec_driver_sql(statement)
