import sqlalchemy as sa

from placement_core import db
from placement_core.db import Question
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases

_providers = tables.resource_providers
_NAMED = Question(
    sa.select(_providers.c.id, _providers.c.name)
    .where(_providers.c.name == sa.bindparam("name"),
           _providers.c.generation >= sa.bindparam("least", type_=sa.Integer))
    .order_by(_providers.c.id).limit(7))


@databases.on_each_database
class TestQuestion(base.DatabaseTestCase):

    def test_rows(self):
        made = factories.provider(self.ctx, "100% one's")
        factories.provider(self.ctx, "two")
        self.assertEqual(
            [(made.id, "100% one's")],
            [tuple(row) for row in _NAMED.ask(self.ctx, {"least": 0, "name": "100% one's"})])
        self.assertEqual([], list(_NAMED.ask(self.ctx, {"least": 9, "name": "two"})))

    def test_sees_what_was_committed_and_joins_an_open_transaction(self):
        question = {"name": "new", "least": 0}
        with db.write(self.ctx) as session:
            session.execute(sa.insert(_providers).values(
                uuid=factories.new_uuid(), name="new", generation=0))
            self.assertEqual(1, len(_NAMED.ask(self.ctx, question)))
            if self.kind != "sqlite":  # readers there would wait for the writer's database
                self.assertEqual(0, len(_NAMED.ask(self.context(), question)))
        self.assertEqual(1, len(_NAMED.ask(self.context(), question)))

    def test_a_lost_connection_is_replaced(self):
        asked = {"name": "one", "least": 0}
        factories.provider(self.ctx, "one")
        _NAMED.ask(self.ctx, asked)
        pooled = self.database.autocommit.raw_connection()
        pooled.dbapi_connection.close()
        pooled.close()
        self.assertEqual(1, len(_NAMED.ask(self.ctx, asked)))
        self.assertEqual(1, len(_NAMED.ask(self.ctx, asked)))

    def test_errors_are_those_of_other_statements(self):
        wrong = sa.select(sa.column("nothing")).select_from(sa.table("nowhere"))
        with self.assertRaises(Exception) as usual, db.read(self.context()) as session:
            session.execute(wrong)
        with self.assertRaises(type(usual.exception)):
            Question(wrong).ask(self.ctx)
        self.assertEqual([], list(_NAMED.ask(self.ctx, {"name": "x", "least": 0})))
