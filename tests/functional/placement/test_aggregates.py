import functools

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import aggregates, errors, providers, tables
from placement_core.testing import factories
from tests import base, databases, races


@databases.on_each_database
class TestAggregates(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.provider = factories.provider(self.ctx)

    def replace(self, uuids, generation, ctx=None):
        return aggregates.replace_for_provider(
            ctx or self.ctx, self.provider.uuid, uuids, generation=generation)

    def rows(self):
        with db.read(self.ctx) as session:
            return session.execute(sa.select(tables.placement_aggregates.c.uuid)).scalars().all()

    def test_no_provider(self):
        uuid = factories.new_uuid()
        self.assertRaises(
            errors.ProviderNotFound, aggregates.list_for_provider, self.ctx, uuid)
        for generation in (None, 7):
            self.assertRaises(
                errors.ProviderNotFound, aggregates.replace_for_provider, self.ctx, uuid,
                [factories.new_uuid()], generation=generation)
        self.assertEqual([], self.rows())

    def test_replace(self):
        one, two, three = sorted(factories.new_uuid() for _ in range(3))
        self.assertEqual((two, one), self.replace([two, one, two], None).uuids)
        self.assertEqual((one, two), aggregates.list_for_provider(
            self.ctx, self.provider.uuid).uuids)
        written = self.replace([two, three], None)
        self.assertEqual((two, three), written.uuids)
        self.assertEqual(
            written, aggregates.list_for_provider(self.ctx, self.provider.uuid))
        self.assertEqual((), self.replace([], None).uuids)
        self.assertEqual({one, two, three}, set(self.rows()))

    def test_spelling_is_kept(self):
        spelled = [factories.new_uuid().upper(), factories.new_uuid().replace("-", "")]
        self.assertEqual(set(spelled), set(self.replace(spelled, None).uuids))

    def test_spellings_no_row_can_hold(self):
        for spelled in (f"urn:uuid:{factories.new_uuid()}", "\0", "\ud800", ""):
            self.assertRaises(errors.InvalidAggregate, self.replace, [spelled], 0)
        self.assertEqual(0, providers.get(self.ctx, self.provider.uuid).generation)

    def test_generation_conflict(self):
        for generation in (1, -1, 2**31, 10**40):
            error = self.assertRaises(errors.ProviderGenerationConflict, self.replace,
                                      [factories.new_uuid()], generation)
            self.assertEqual("Resource provider's generation already changed. Please update "
                             "the generation and try again.", str(error))
        self.assertEqual([], self.rows())

    def test_very_many(self):
        uuids = sorted(factories.new_uuid() for _ in range(1203))
        self.assertEqual(tuple(uuids), self.replace(uuids, 0).uuids)
        self.assertEqual(tuple(uuids[:1]), self.replace(uuids[:1], 1).uuids)

    def test_writes_are_logged(self):
        for generation in (None, 0):
            with db.write(self.ctx) as session:
                self.replace([factories.new_uuid()], generation)
                self.assertEqual(
                    [("provider", self.provider.id)],
                    [(change.kind, change.ref) for change in session.recorded_changes])

    def test_same_aggregates_at_once(self):
        uuids = [factories.new_uuid() for _ in range(20)]
        others = [factories.provider(self.ctx) for _ in range(6)]
        outcomes = races.run(*(
            functools.partial(
                aggregates.replace_for_provider, self.context(), other.uuid,
                uuids if n % 2 else uuids[::-1], generation=0)
            for n, other in enumerate(others)))
        for outcome in outcomes:
            self.assertEqual((1, set(uuids)), (outcome.generation, set(outcome.uuids)))
        for other in others:
            self.assertEqual(set(uuids), set(
                aggregates.list_for_provider(self.ctx, other.uuid).uuids))
        self.assertEqual(20, len(self.rows()))

    def test_one_generation_one_winner(self):
        outcomes = races.run(*(
            functools.partial(self.replace, [factories.new_uuid()], 0, self.context())
            for _ in range(4)))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["ProviderGenerationConflict"] * 3,
                         [type(error).__name__ for error in lost])

    def test_without_generation_nobody_loses(self):
        outcomes = races.run(*(
            functools.partial(self.replace, [factories.new_uuid()], None, self.context())
            for _ in range(4)))
        found = aggregates.list_for_provider(self.ctx, self.provider.uuid)
        self.assertEqual(0, found.generation)
        self.assertIn(found, outcomes)
