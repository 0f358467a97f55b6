"""Statements that write, straight from the driver."""

import datetime
import gc
import time
import weakref

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.context import Context
from placement_core.db import PreparedRead, availability, inserts, lists
from placement_core.db.database import Database, Settings
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases

_providers = tables.resource_providers
_INSERT = sa.insert(_providers).inline()
_RAISE = (
    sa.update(_providers)
    .where(_providers.c.uuid == sa.bindparam("of_uuid"), _providers.c.generation < 7)
    .values(generation=_providers.c.generation + sa.bindparam("step")))
_SET_TIME = (
    sa.update(_providers)
    .where(_providers.c.uuid == sa.bindparam("of_uuid"))
    .values(created_at=sa.bindparam("at")))
_REMOVE = sa.delete(_providers).where(_providers.c.uuid == sa.bindparam("of_uuid"))
_REMOVE_SOME = sa.delete(_providers).where(
    _providers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
_MAKE_TRAIT = sa.insert(tables.resource_provider_traits).inline()


@databases.on_each_database
class TestExecuteWrite(base.DatabaseTestCase):

    def provider(self, name):
        return {"uuid": factories.new_uuid(), "name": name, "generation": 0}

    def change(self, statement, parameters, *, straight=True):
        """Write in a transaction of its own; see that it went straight to the driver."""
        first = parameters if isinstance(parameters, dict) else parameters[0]
        compiled = self.database.compiled.get(statement, first)
        self.assertEqual(straight, compiled is not None)
        with db.write(self.ctx) as session:
            return session.execute_write(statement, parameters)

    def rows(self):
        with self.database.autocommit.connect() as connection:
            return {row.name: row for row in connection.execute(sa.select(_providers))}

    def test_one(self):
        before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        given = self.provider("100% one's")
        self.assertEqual(1, self.change(_INSERT, given))
        [row] = self.rows().values()
        self.assertEqual(given, {name: row._mapping[name] for name in given})
        # What the column says for itself.
        self.assertIsNone(row.updated_at)
        self.assertTrue(before <= row.created_at + datetime.timedelta(seconds=1))
        raised = {"of_uuid": given["uuid"], "step": 5}
        self.assertEqual(1, self.change(_RAISE, raised))
        self.assertEqual(1, self.change(_RAISE, raised))
        self.assertEqual(0, self.change(_RAISE, raised))
        [row] = self.rows().values()
        self.assertEqual(10, row.generation)
        self.assertTrue(row.updated_at >= row.created_at)
        at = datetime.datetime(2026, 3, 1, 12, 0, 5)
        self.assertEqual(1, self.change(_SET_TIME, {"of_uuid": given["uuid"], "at": at}))
        self.assertEqual(at, self.rows()[given["name"]].created_at)
        self.assertEqual(1, self.change(_REMOVE, {"of_uuid": given["uuid"]}))
        self.assertEqual(0, self.change(_REMOVE, {"of_uuid": given["uuid"]}))

    def test_a_default_that_is_given(self):
        at = datetime.datetime(2026, 3, 1)
        self.change(_INSERT, self.provider("one") | {"created_at": at, "updated_at": None})
        self.assertEqual(at, self.rows()["one"].created_at)

    def test_lists_of_any_texts(self):
        names = ["", " x", "NULL", '"', "\\", '\\"', "{a,b}", "it's", "100%s", "%(x)s",
                 "a,b", "two\nlines", "ü\U0001f600", "{}", "\t"]
        with db.write(self.ctx) as session:
            inserts.insert_many(session, _providers, [self.provider(name) for name in names])
        self.assertEqual(set(names), set(self.rows()))
        read = PreparedRead(
            sa.select(_providers.c.name).where(lists.among(_providers.c.name, "names")))
        for name in names:
            found = [row.name for row in read.fetch(self.ctx, {"names": [name, "other"]})]
            self.assertIn(name, found)

    def test_lists_of_numbers_and_of_nothing(self):
        rows = [self.provider("one") | {"root_provider_id": None},
                self.provider("two") | {"root_provider_id": None, "generation": 2.0},
                self.provider("three") | {"root_provider_id": None, "generation": 2**31 - 1}]
        with db.write(self.ctx) as session:
            inserts.insert_many(session, _providers, rows)
        self.assertEqual({"one": 0, "two": 2, "three": 2**31 - 1},
                         {name: row.generation for name, row in self.rows().items()})
        self.assertEqual({None}, {row.root_provider_id for row in self.rows().values()})

    def test_what_is_returned(self):
        if self.database.autocommit.dialect.name == "mysql":
            self.skipTest("MySQL's UPDATE returns nothing")
        one, two = self.provider("one"), self.provider("two")
        self.change(_INSERT, [one, two])
        raised = _RAISE.returning(_providers.c.name, _providers.c.generation)
        with db.write(self.ctx) as session:
            rows = session.fetch_written(raised, {"of_uuid": two["uuid"], "step": 3})
        self.assertEqual([("two", 3)], [tuple(row) for row in rows])
        with db.write(self.ctx) as session:
            rows = session.fetch_written(raised, {"of_uuid": factories.new_uuid(), "step": 3})
        self.assertEqual([], list(rows))
        self.assertEqual(3, self.rows()["two"].generation)

    def test_several(self):
        many = [self.provider(name) for name in ("one", "two", "three")]
        self.assertEqual(3, self.change(_INSERT, many))
        self.assertEqual({"one", "two", "three"}, set(self.rows()))
        self.assertEqual(2, self.change(
            _RAISE, [{"of_uuid": each["uuid"], "step": 1} for each in many[:2]]))

    def test_errors_are_those_of_execute(self):
        given = self.provider("one")
        self.change(_INSERT, given)
        self.assertRaises(db_exception.DBDuplicateEntry, self.change, _INSERT, given)
        self.assertRaises(db_exception.DBDuplicateEntry, self.change, _INSERT, [given])
        self.assertEqual({"one"}, set(self.rows()))
        with db.write(self.ctx) as session:
            session.execute_write(_INSERT, self.provider("two"))
            if self.kind == "mysql":
                # There the transaction goes on.
                self.assertRaises(
                    db_exception.DBDuplicateEntry, session.execute_write, _INSERT, given)
        self.assertEqual({"one", "two"}, set(self.rows()))

    def test_what_no_row_can_hold(self):
        given = self.provider("one")
        for wrong in ({"name": "\ud800"}, {"generation": 2**70}):
            self.assertRaises(errors.Invalid, self.change, _INSERT, given | wrong)
        self.assertEqual({}, self.rows())

    def test_a_missing_row(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite does not look")
        self.assertRaises(
            db_exception.DBReferenceError, self.change, _MAKE_TRAIT,
            {"trait_id": 2**31 - 1, "resource_provider_id": 2**31 - 1})

    def test_a_lost_connection(self):
        """Nothing was written: it may be tried again."""
        with self.assertRaises(db.TransactionConflict), db.write(self.ctx) as session:
            session.execute_write(_INSERT, self.provider("one"))
            session.connection.connection.dbapi_connection.close()
            session.execute_write(_INSERT, self.provider("two"))
        self.assertEqual({}, self.rows())
        self.change(_INSERT, self.provider("three"))
        self.assertEqual({"three"}, set(self.rows()))

    def test_a_missing_parameter(self):
        """It is never taken for NULL."""
        error = self.assertRaises(
            db_exception.DBError, self.change, _RAISE, {"of_uuid": "x"}, straight=False)
        self.assertIn("required for bind parameter 'step'", str(error))

    def test_lists(self):
        many = [self.provider(str(number)) for number in range(8)]
        self.change(_INSERT, many)
        for some in ([], many[:1], many[1:4], many[4:6], many[:7]):
            there = sum(each["name"] in self.rows() for each in some)
            self.assertEqual(there, self.change(
                _REMOVE_SOME, {"uuids": [each["uuid"] for each in some]}))
        self.assertEqual({"7"}, set(self.rows()))

    def test_compiled_statements_end_with_their_database(self):
        other = Database(Settings(self.database.settings.connection), self.database.journal)
        with db.write(Context(other)) as session:
            session.execute_write(_INSERT, self.provider("one"))
        dialect = weakref.ref(other.writer.dialect)
        # The thread that watches databases has seen it, and sleeps now.
        time.sleep(1.5 * availability._WATCH_SECONDS)
        other.dispose()
        del other, session
        gc.collect()
        self.assertIsNone(dialect())

    def test_who_listens_hears_it(self):
        heard = []

        def note(_connection, _cursor, statement, *_anything):
            heard.append(statement)

        sa.event.listen(self.database.writer, "before_cursor_execute", note)
        try:
            self.change(_INSERT, self.provider("one"))
        finally:
            sa.event.remove(self.database.writer, "before_cursor_execute", note)
        self.assertTrue(any("INSERT INTO resource_providers" in each for each in heard), heard)


class TestPlansOfPostgreSQL(base.DatabaseTestCase):

    kind = "postgresql"

    def setUp(self):
        if self.kind not in databases.KINDS:
            self.skipTest("There is no PostgreSQL.")
        super().setUp()

    def test_a_scan_is_not_compiled(self):
        """Machine code for a statement takes many times as long as the statement."""
        scan = sa.text("EXPLAIN SELECT name FROM resource_providers WHERE generation = 7")
        with self.database.writer.connect() as connection:
            plan = connection.scalars(scan).all()
        self.assertIn("Seq Scan", plan[0])
        self.assertEqual([], [line for line in plan if "JIT" in line])
