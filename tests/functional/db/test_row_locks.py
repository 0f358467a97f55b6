"""An UPDATE that locks its rows in the order of their ids."""

from __future__ import annotations

import functools
import random

import sqlalchemy as sa

from placement_core import db
from placement_core.db import lists, row_locks
from placement_core.placement import tables
from tests import base, databases, races

_traits = tables.traits
_TOUCH = sa.update(_traits).where(
    row_locks.locked_in_order(_traits.c.id, lists.among(_traits.c.id, "ids")),
).values(name=_traits.c.name)


@databases.on_each_database
class TestLockedInOrder(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        with self.database.writer.begin() as connection:
            connection.execute(sa.insert(_traits), [
                {"name": f"CUSTOM_{number}"} for number in range(40)])
            self.ids = list(connection.execute(
                sa.select(_traits.c.id).where(_traits.c.name.like("CUSTOM%"))).scalars())

    def lock(self, ctx, ids) -> int:
        with db.write(ctx) as session:
            return session.execute_write(_TOUCH, {"ids": ids})

    def test_only_the_rows_of_the_condition(self) -> None:
        self.assertEqual(2, self.lock(self.ctx, [self.ids[3], self.ids[5], -1]))

    def test_whatever_the_order_of_the_list_nobody_deadlocks(self) -> None:
        chance = random.Random(7)

        def many(order):
            for _ in range(10):
                self.lock(self.context(), order)

        outcomes = races.run(*(
            functools.partial(many, chance.sample(self.ids, len(self.ids)))
            for _ in range(4)))
        self.assertEqual([None] * 4, outcomes)
