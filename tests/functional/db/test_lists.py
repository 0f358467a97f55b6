"""Lists of values as one parameter, on each database."""

import sqlalchemy as sa

from placement_core import db
from placement_core.db import lists
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases

_providers = tables.resource_providers
_NAMES = sa.select(_providers.c.name).order_by(_providers.c.id)


@databases.on_each_database
class TestAmong(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for name in ("one", "two", "100% three's"):
            factories.provider(self.ctx, name)

    def names(self, condition, names):
        with db.read_once(self.ctx) as session:
            return session.execute(_NAMES.where(condition), {"names": names}).scalars().all()

    def test_values(self):
        for build in (lists.among, lists.among_many):
            for names, found in (
                    (["two", "100% three's", "four"], ["two", "100% three's"]),
                    (["one"], ["one"]), ([], [])):
                self.assertEqual(found, self.names(build(_providers.c.name, "names"), names))

    def test_what_is_not_among_them(self):
        for build in (lists.among, lists.among_many):
            condition = sa.not_(build(_providers.c.name, "names"))
            self.assertEqual(["one"], self.names(condition, ["two", "100% three's"]))

    def test_thousands_of_numbers(self):
        with db.read_once(self.ctx) as session:
            found = session.execute(
                _NAMES.where(lists.among_many(_providers.c.id, "ids")),
                {"ids": list(range(40_000))}).scalars().all()
        self.assertEqual(["one", "two", "100% three's"], found)

    def test_in_an_alias_and_a_subquery(self):
        other = _providers.alias("other")
        named = sa.select(other.c.id).where(lists.among(other.c.name, "names")).subquery()
        self.assertEqual(["two"], self.names(_providers.c.id == named.c.id, ["two", "no"]))

    def test_writes(self):
        for build in (lists.among, lists.among_many):
            with db.write(self.ctx) as session:
                met = session.execute_write(
                    sa.update(_providers).where(build(_providers.c.name, "names"))
                    .values(generation=7), {"names": ["one", "two", "four"]})
            self.assertEqual(2, met)

    def test_one_statement_for_any_number(self):
        statement = _NAMES.where(lists.among(_providers.c.name, "names"))
        same = _NAMES.where(lists.among(_providers.c.name, "names"))
        others = (_NAMES.where(lists.among_many(_providers.c.name, "names")),
                  _NAMES.where(lists.among(_providers.c.name, "others")))
        key = statement._generate_cache_key()
        self.assertIsNotNone(key)
        self.assertEqual(key, same._generate_cache_key())
        for other in others:
            self.assertNotEqual(key, other._generate_cache_key())
