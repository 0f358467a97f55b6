import dataclasses
import datetime
import os
import threading
from unittest import mock

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, connections, lists
from placement_core.db.database import Database
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases

_providers = tables.resource_providers
_NAMED = PreparedRead(
    sa.select(_providers.c.id, _providers.c.name)
    .where(_providers.c.name == sa.bindparam("name"),
           _providers.c.generation >= sa.bindparam("least", type_=sa.Integer))
    .order_by(_providers.c.id).limit(7))


@databases.on_each_database
class TestPreparedRead(base.DatabaseTestCase):

    def test_rows(self):
        made = factories.provider(self.ctx, "100% one's")
        factories.provider(self.ctx, "two")
        self.assertEqual(
            [(made.id, "100% one's")],
            [tuple(row) for row in _NAMED.fetch(self.ctx, {"least": 0, "name": "100% one's"})])
        self.assertEqual([], list(_NAMED.fetch(self.ctx, {"least": 9, "name": "two"})))

    def test_sees_what_was_committed_and_joins_an_open_transaction(self):
        question = {"name": "new", "least": 0}
        with db.write(self.ctx) as session:
            session.execute(sa.insert(_providers).values(
                uuid=factories.new_uuid(), name="new", generation=0))
            self.assertEqual(1, len(_NAMED.fetch(self.ctx, question)))
            if self.kind != "sqlite":  # readers there would wait for the writer's database
                self.assertEqual(0, len(_NAMED.fetch(self.context(), question)))
        self.assertEqual(1, len(_NAMED.fetch(self.context(), question)))

    def test_a_lost_connection_is_replaced(self):
        asked = {"name": "one", "least": 0}
        factories.provider(self.ctx, "one")
        _NAMED.fetch(self.ctx, asked)
        connection = self.database.read_connections.check_out()
        connection.pooled.dbapi_connection.close()
        self.database.read_connections.check_in(connection)
        self.assertEqual(1, len(_NAMED.fetch(self.ctx, asked)))
        self.assertIsNot(connection, self.database.read_connections.check_out())
        self.assertEqual(1, len(_NAMED.fetch(self.ctx, asked)))

    def test_connections_that_are_never_replaced(self):
        """``[placement_database] connection_recycle_time = -1``."""
        database = Database(dataclasses.replace(
            self.database.settings, connection_recycle_seconds=-1), self.database.journal)
        self.addCleanup(database.dispose)
        made = []
        sa.event.listen(database.autocommit, "connect", lambda *_: made.append(1))
        for _ in range(3):
            _NAMED.fetch(Context(database), {"name": "one", "least": 0})
        self.assertEqual(1, len(made))

    def test_times(self):
        """Also where a driver writes them otherwise than the column does (SQLite)."""
        made = tables.resource_providers.c.created_at
        at = datetime.datetime(2026, 3, 1, 12)
        factories.provider(self.ctx, "one")
        with db.write(self.ctx) as session:
            session.execute(sa.update(_providers).values(created_at=at))
        for found, question in (
                (1, sa.select(made).where(made == sa.bindparam("at", type_=made.type))),
                (0, sa.select(made).where(made > sa.bindparam("at", type_=made.type)))):
            self.assertEqual(
                [(at,)] * found,
                [tuple(row) for row in PreparedRead(question).fetch(self.ctx, {"at": at})])

    def test_lists(self):
        """Of any length, beside other parameters, and in negations; in a transaction and not."""
        names = [f"provider {number:04}" for number in range(1100)]
        for name in names[:9]:
            factories.provider(self.ctx, name)
        statement = (
            sa.select(_providers.c.name)
            .where(lists.among(_providers.c.name, "names"),
                   sa.not_(lists.among(_providers.c.id, "without")),
                   _providers.c.generation >= sa.bindparam("least", type_=sa.Integer))
            .order_by(_providers.c.name))
        prepared = PreparedRead(statement)
        for length in (0, 1, 2, 3, 5, 9, 33, 1100, 2, 0):
            for without in ([], [-1, -2, -3]):
                parameters = {"names": names[:length], "without": without, "least": 0}
                with db.read(self.ctx) as session:
                    together = prepared.fetch_in(session, parameters)
                    self.assertEqual(session.execute(statement, parameters).all(), together)
                self.assertEqual(names[:min(length, 9)], [row.name for row in together])
                self.assertEqual(together, prepared.fetch(self.ctx, parameters))
                self.assertEqual([], list(prepared.fetch(self.ctx, {**parameters, "least": 99})))

    def test_lists_of_times(self):
        """Their values are converted one by one."""
        created = _providers.c.created_at
        times = [datetime.datetime(2026, 3, day, 12) for day in (1, 2, 3)]
        for at in times:
            made = factories.provider(self.ctx)
            with db.write(self.ctx) as session:
                session.execute(sa.update(_providers).where(
                    _providers.c.id == made.id).values(created_at=at))
        prepared = PreparedRead(
            sa.select(created).where(lists.among(created, "times")).order_by(created))
        with db.read(self.ctx) as session:
            self.assertEqual(
                times[1:], [row[0] for row in prepared.fetch_in(session, {"times": times[1:]})])
        self.assertEqual(times, [row[0] for row in prepared.fetch(self.ctx, {"times": times})])

    def test_errors_are_those_of_other_statements(self):
        wrong = sa.select(sa.column("nothing")).select_from(sa.table("nowhere"))
        with self.assertRaises(Exception) as usual, db.read(self.context()) as session:
            session.execute(wrong)
        with self.assertRaises(type(usual.exception)):
            PreparedRead(wrong).fetch(self.ctx)
        with (self.assertRaises(type(usual.exception)), db.read(self.context()) as session):
            PreparedRead(wrong).fetch_in(session)
        self.assertEqual([], list(_NAMED.fetch(self.ctx, {"name": "x", "least": 0})))


@databases.on_each_database
class TestReadConnections(base.DatabaseTestCase):

    def connections(self, most=2, recycle_seconds=60.0):
        made = connections.ReadConnections(
            self.database.autocommit, self.database.availability, most=most,
            recycle_seconds=recycle_seconds)
        self.addCleanup(made.close)
        return made

    def works(self, connection):
        connection.cursor.execute("SELECT 7")
        return connection.cursor.fetchall()[0][0] == 7

    def test_one_after_the_other(self):
        found = self.connections()
        connection = found.check_out()
        self.assertTrue(self.works(connection))
        found.check_in(connection)
        self.assertIs(connection, found.check_out())

    def test_nobody_shares_one(self):
        found = self.connections()
        taken = [found.check_out() for _ in range(4)]
        self.assertEqual(4, len({id(connection.pooled.dbapi_connection) for connection in taken}))
        for connection in taken:
            self.assertTrue(self.works(connection))
            found.check_in(connection)
        again = [found.check_out() for _ in range(3)]
        self.assertEqual(2, len([connection for connection in again if connection in taken]))

    def test_who_finds_all_in_use_waits_for_one(self):
        found = self.connections()
        first, second = found.check_out(), found.check_out()
        threading.Timer(0.01, found.check_in, [first]).start()
        with mock.patch.object(connections, "_PATIENCE_SECONDS", 30):
            self.assertIs(first, found.check_out())
        third = found.check_out()  # nobody gives one back
        self.assertNotIn(third, (first, second))
        self.assertTrue(self.works(third))

    def test_what_is_old_or_a_parents_is_not_used(self):
        found = self.connections(recycle_seconds=0)
        connection = found.check_out()
        found.check_in(connection)
        self.assertIsNot(connection, found.check_out())

        found = self.connections()
        connection = dataclasses.replace(found.check_out(), pid=os.getpid() + 1)
        found.check_in(connection)
        self.assertIsNot(connection, found.check_out())
        self.assertTrue(self.works(connection))  # it was left alone

    def test_one_that_is_never_too_old(self):
        """As in the pools of SQLAlchemy, which take a negative time for no bound."""
        read_connections = self.connections(recycle_seconds=-1)
        connection = read_connections.check_out()
        read_connections.check_in(connection)
        self.assertIs(connection, read_connections.check_out())

    def test_they_do_not_use_up_the_pool(self):
        taken = [self.database.read_connections.check_out() for _ in range(3)]
        self.assertEqual(0, self.database.autocommit.pool.checkedout())
        for connection in taken:
            connection.close()

    def test_all_are_closed_in_the_end(self):
        found = self.connections()
        connection = found.check_out()
        found.check_in(connection)
        found.close()
        self.assertRaises(Exception, self.works, connection)  # each driver has its own
