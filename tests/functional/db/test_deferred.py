"""Statements that are sent together with the next one."""

import struct

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, lists
from placement_core.db.database import Database, Settings
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases
from tests.functional.db import proxy

_providers = tables.resource_providers
_INSERT = sa.insert(_providers).inline()
_RAISE = (
    sa.update(_providers).where(_providers.c.uuid == sa.bindparam("of_uuid"))
    .values(generation=_providers.c.generation + 1))
_NAMES = PreparedRead(
    sa.select(_providers.c.name, _providers.c.generation)
    .where(lists.among(_providers.c.name, "names")).order_by(_providers.c.name))


class _WrongCountError(Exception):
    pass


def _expect(count):
    def check(met):
        if met != count:
            raise _WrongCountError(met)

    return check


@databases.on_each_database
class TestDeferred(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        #: SQLite has nothing to wait for.
        self.waits = self.kind != "sqlite"

    def provider(self, name):
        return {"uuid": factories.new_uuid(), "name": name, "generation": 0}

    def names(self):
        with self.database.autocommit.connect() as connection:
            return set(connection.execute(sa.select(_providers.c.name)).scalars())

    def test_in_their_order_before_the_next_one(self):
        one, two = self.provider("one"), self.provider("two")
        with db.write(self.ctx) as session:
            session.write_later(_INSERT, one, _expect(1))
            first = _NAMES.fetch_later(session, {"names": ["one", "two"]})
            session.write_later(_RAISE, {"of_uuid": one["uuid"]}, _expect(1))
            session.write_later(_INSERT, two)
            self.assertEqual([("one", 1), ("two", 0)], [
                tuple(row) for row in _NAMES.fetch_in(session, {"names": ["one", "two"]})])
            # It saw what there was in its turn.
            self.assertEqual([("one", 0)], [tuple(row) for row in first()])
            self.assertEqual([("one", 0)], [tuple(row) for row in first()])
        self.assertEqual({"one", "two"}, self.names())

    def test_whatever_is_next(self):
        count = sa.select(sa.func.count()).select_from(_providers)
        for name, count_rows in (
            ("a", lambda session: session.execute(count).scalar()),
            ("b", lambda session: session.connection.execute(count).scalar()),
            ("c", lambda session: len(_NAMES.fetch_later(session, {"names": list("abc")})())),
        ):
            with db.write(self.ctx) as session:
                session.write_later(_INSERT, self.provider(name))
                self.assertEqual("abc".index(name) + 1, count_rows(session))

    def test_nothing_but_the_commit_is_next(self):
        with db.write(self.ctx) as session:
            session.write_later(_INSERT, self.provider("one"))
        self.assertEqual({"one"}, self.names())

    def test_they_go_together(self):
        """Nothing is sent before: another transaction need not wait for it."""
        with db.write(self.ctx) as session:
            session.write_later(_INSERT, self.provider("one"))
            if self.waits:
                with db.write(self.context()) as other:
                    other.execute_write(_INSERT, self.provider("one") | {"name": "two"})
                self.assertEqual({"two"}, self.names())
            session.flush()
        self.assertIn("one", self.names())

    def test_a_read_right_behind_the_next_statement(self):
        one, two = self.provider("one"), self.provider("two")
        names = {"names": ["one", "two"]}
        for deferred in (False, True):
            with self.subTest(deferred=deferred), self.assertRaises(_WrongCountError), (
                    db.write(self.ctx)) as session:
                if deferred:
                    session.write_later(_INSERT, two)
                behind = _NAMES.fetch_behind(session, names)
                self.assertIsNone(behind())
                self.assertEqual(1, session.execute_write(_INSERT, one))
                session.execute_write(_RAISE, {"of_uuid": one["uuid"]})
                rows = behind()
                # SQLite sends nothing together.
                self.assertEqual(not self.waits, rows is None)
                if rows is not None:
                    self.assertEqual([("one", 0), ("two", 0)][:1 + deferred],
                                     [tuple(row) for row in rows])
                raise _WrongCountError

    def test_a_read_behind_a_statement_that_fails(self):
        one = self.provider("one")
        with self.assertRaises(db_exception.DBDuplicateEntry), db.write(self.ctx) as session:
            session.execute_write(_INSERT, one)
            behind = _NAMES.fetch_behind(session, {"names": ["one"]})
            try:
                session.execute_write(_INSERT, one)
            finally:
                self.assertIsNone(behind())

    def test_a_read_behind_what_is_sent_alone(self):
        """It is not read at another time, earlier or later, when the rows are others."""
        for deferred in (False, True):
            with self.subTest(deferred=deferred), self.assertRaises(_WrongCountError), (
                    db.write(self.ctx)) as session:
                if deferred:
                    session.write_later(_INSERT, self.provider("two"))
                behind = _NAMES.fetch_behind(session, {"names": ["one", "two"]})
                session.execute(sa.select(sa.func.count()).select_from(_providers))
                session.execute_write(_INSERT, self.provider("one"))
                self.assertIsNone(behind())
                raise _WrongCountError

    def test_a_check_fails(self):
        with self.assertRaises(_WrongCountError), db.write(self.ctx) as session:
            session.write_later(_INSERT, self.provider("one"))
            session.write_later(_RAISE, {"of_uuid": "nobody"}, _expect(1))
            session.write_later(_INSERT, self.provider("two"))
        self.assertEqual(set(), self.names())

    def test_a_check_fails_before_a_statement_does(self):
        """The first of the two is the reason."""
        one = self.provider("one")
        with self.assertRaises(_WrongCountError), db.write(self.ctx) as session:
            session.write_later(_INSERT, one)
            session.write_later(_RAISE, {"of_uuid": "nobody"}, _expect(1))
            session.write_later(_INSERT, one)
        self.assertEqual(set(), self.names())

    def test_many_rows(self):
        """More than the server takes in one message, and signs that mean something in SQL."""
        many = [self.provider(f"{'%s;' * 40}'\"\\{number}") for number in range(12_000)]
        with db.write(self.ctx) as session:
            if self.kind == "postgresql":
                for each in many[:1000]:
                    session.write_later(_INSERT, each, _expect(1))
            else:
                session.write_later(_INSERT, many, _expect(len(many)))
                session.write_later(_INSERT, self.provider("one"), _expect(1))
        self.assertLessEqual(
            {each["name"] for each in many[:1000]}, self.names())

    def test_one_fails(self):
        """Its error comes, with its text, and not what that means for those behind it."""
        one = self.provider("one")
        with self.assertRaises(db_exception.DBDuplicateEntry) as raised, (
                db.write(self.ctx)) as session:
            session.write_later(_INSERT, one)
            session.write_later(_INSERT, one)
            session.write_later(_RAISE, {"of_uuid": one["uuid"]}, _expect(7))
            _NAMES.fetch_in(session, {"names": ["one"]})
        self.assertIn("INSERT INTO resource_providers", str(raised.exception))
        self.assertEqual(set(), self.names())
        # The connection is as good as before.
        with db.write(self.ctx) as session:
            session.write_later(_INSERT, one)
        self.assertEqual({"one"}, self.names())

    def test_the_first_of_many_fails(self):
        """Those behind it, which are sent in messages of their own, fail for it: it is named."""
        one = self.provider("one")
        for _ in range(5):
            with self.assertRaises(db_exception.DBDuplicateEntry), db.write(self.ctx) as session:
                session.write_later(_INSERT, one)
                session.write_later(_INSERT, one)
                for number in range(300):
                    session.write_later(_INSERT, self.provider(f"{number}".ljust(190, "-")))
            self.assertEqual(set(), self.names())

    def test_inside_of_another_transaction(self):
        """Errors are raised where the inner one ends, and it leaves nothing behind."""
        one = self.provider("one")
        with db.write(self.ctx) as session:
            session.execute_write(_INSERT, one)
            with (self.assertRaises(_WrongCountError), session.connection.begin_nested(),
                  db.write(self.ctx) as inner):
                inner.write_later(_RAISE, {"of_uuid": one["uuid"]}, _expect(2))
            with (self.assertRaises(LookupError), session.connection.begin_nested(),
                  db.write(self.ctx) as inner):
                inner.write_later(_RAISE, {"of_uuid": one["uuid"]})
                raise LookupError
            with db.write(self.ctx) as inner:
                inner.write_later(_INSERT, self.provider("two"))
            [row] = _NAMES.fetch_in(session, {"names": ["one"]})
            self.assertEqual(("one", 0), tuple(row))
        self.assertEqual({"one", "two"}, self.names())

    def test_a_lost_connection(self):
        """Nothing was written: it may be tried again."""
        with self.assertRaises(db.TransactionConflict), db.write(self.ctx) as session:
            session.execute_write(_INSERT, self.provider("one"))
            session.connection.connection.dbapi_connection.close()
            session.write_later(_INSERT, self.provider("two"))
            session.write_later(_INSERT, self.provider("three"))
        self.assertEqual(set(), self.names())
        with db.write(self.ctx) as session:
            session.write_later(_INSERT, self.provider("four"))
            session.write_later(_INSERT, self.provider("five"))
        self.assertEqual({"four", "five"}, self.names())

    def test_who_listens_hears_them(self):
        heard = []

        def note(_connection, _cursor, statement, *_anything):
            heard.append(statement)

        sa.event.listen(self.database.writer, "before_cursor_execute", note)
        try:
            with db.write(self.ctx) as session:
                session.write_later(_INSERT, self.provider("one"))
                self.assertEqual([("one", 0)], [tuple(row) for row in _NAMES.fetch_later(
                    session, {"names": ["one"]})()])
        finally:
            sa.event.remove(self.database.writer, "before_cursor_execute", note)
        self.assertTrue(any("INSERT INTO resource_providers" in each for each in heard), heard)


class TestOnePiece(base.DatabaseTestCase):
    """What a process leaves behind that is stopped while it sends, on PostgreSQL."""

    kind = "postgresql"

    def setUp(self):
        if self.kind not in databases.KINDS:
            self.skipTest(f"needs {databases.VARIABLES[self.kind]}")
        super().setUp()
        url = databases.server_database(self.kind)
        self.proxy = proxy.Proxy((url.host, url.port or 5432), b"COMMIT")
        self.addCleanup(self.proxy.close)
        url = url.set(host=self.proxy.address[0], port=self.proxy.address[1])
        self.through = Database(
            Settings(url.render_as_string(hide_password=False)), self.database.journal)
        self.addCleanup(self.through.dispose)

    def pieces(self, writes, length):
        """Send so many writes together; return the types of messages in each piece."""
        ctx = Context(self.through)
        with db.write(ctx) as session:
            _NAMES.fetch_in(session, {"names": ["BEGIN was sent"]})
            self.proxy.sent.clear()
            for _ in range(writes):
                uuid = factories.new_uuid()
                session.write_later(
                    _INSERT, {"uuid": uuid, "name": uuid.ljust(length, "-"), "generation": 0},
                    _expect(1))
            session.flush()
            return [_list_types(piece) for piece in self.proxy.sent]

    def test_each_ends_the_turn(self):
        """PostgreSQL bounds a session that is idle then, and only then."""
        for _ in range(20):
            [piece] = self.pieces(6, 40)
            self.assertEqual(["B", "D", "E"] * 6 + ["S"], [kind for kind in piece if kind != "P"])

    def test_long_ones(self):
        """What libpq would send in parts."""
        for piece in self.pieces(150, 190):
            self.assertEqual("S", piece[-1], piece)


def _list_types(data):
    """Return the types of the messages of a client, all of which must be whole."""
    types = []
    while data:
        kind, length = struct.unpack("!cI", data[:5])
        assert len(data) > length, "a part of a message"
        types.append(kind.decode())
        data = data[1 + length:]
    return types
