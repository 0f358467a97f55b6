"""Exported rows in the database of a service."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import fixtures
import sqlalchemy as sa
import testtools

from placement_core import errors
from placement_core.takeover import exports
from placement_core.takeover.errors import DatabaseNotEmpty, RowRefused, UnknownSchema
from placement_core.takeover.exports import databases as writing
from tests import base, databases
from tests.functional.migrations import bare

_metadata = sa.MetaData()
_names = sa.Table(
    "names", _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(32), unique=True))
_things = sa.Table(
    "things", _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name_id", sa.Integer, sa.ForeignKey("names.id")),
    sa.Column("made_at", sa.DateTime),
    sa.Column("enabled", sa.Boolean))
_versions = sa.Table("alembic_version", _metadata, sa.Column("version_num", sa.String(32)))
_AT = datetime.datetime(2026, 3, 1, 12, 30)


@databases.on_each_database
class TestWrite(base.TestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{writing.__name__}._BATCH", 2))
        self.url = bare.database(self.kind, self.addCleanup)
        self.engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with self.engine.begin() as connection:
            _metadata.create_all(connection)
            connection.execute(sa.insert(_versions), {"version_num": "one"})
        self.names = [(7, "a"), (8, "b"), (9, "c")]
        self.things = [
            {"id": number, "name_id": 7 + number % 3, "made_at": _AT, "enabled": number % 2 == 0}
            for number in range(1, 6)]
        self.reports: list[tuple[str, int, int]] = []

    def list_rows(self, _ctx: object = None) -> Iterator[exports.Row]:
        for id_, name in self.names:
            yield "names", {"id": id_, "name": name}
        for thing in self.things:
            yield "things", dict(thing)

    def write(self, *, bootstrapped=(), replaced=(), schema=("one",)):
        exporter = exports.Exporter(
            "service", schema, ("names", "things"), self.list_rows,
            is_bootstrapped=lambda table, row: (table, row["id"]) in bootstrapped,
            replaced=replaced)
        with writing.open_target(exporter, self.url) as target:
            return target.write(
                self.list_rows(), exports.count_rows(None, exporter),
                lambda *progress: self.reports.append(progress))

    def insert(self, *names: tuple[int, str]) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.insert(_names), [
                {"id": id_, "name": name} for id_, name in names])

    def read(self, table: sa.Table) -> list:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(
                sa.select(table).order_by(table.c.id))]

    def test_all_rows_with_their_types(self) -> None:
        self.assertEqual([], self.write())
        self.assertEqual(self.names, self.read(_names))
        self.assertEqual([tuple(thing.values()) for thing in self.things], self.read(_things))
        self.assertEqual(
            [("names", 2, 3), ("names", 3, 3), ("things", 2, 5), ("things", 4, 5),
             ("things", 5, 5)], self.reports)

    def test_the_next_number_is_behind_ours(self) -> None:
        self.write()
        with self.engine.begin() as connection:
            connection.execute(sa.insert(_names), {"name": "next"})
        self.assertEqual((10, "next"), self.read(_names)[-1])

    def test_rows_of_the_bootstrap_get_our_values(self) -> None:
        self.insert((8, "old"), (1, "kept"))
        [kept] = self.write(bootstrapped={("names", 8), ("names", 1)})
        self.assertEqual(("names", "1", "kept"), (kept.kind, kept.id, kept.name))
        self.assertEqual([(1, "kept"), *self.names], self.read(_names))

    def test_what_only_one_may_have(self) -> None:
        self.insert((1, "c"))
        error = self.assertRaises(DatabaseNotEmpty, self.write, bootstrapped={("names", 1)})
        self.assertIn("names has 1 with the name of 9: c", str(error))
        self.assertEqual([(1, "c")], self.read(_names))

    def test_rows_of_the_bootstrap_are_replaced(self) -> None:
        self.insert((1, "c"), (2, "b"))
        self.assertEqual([], self.write(
            bootstrapped={("names", 1), ("names", 2)}, replaced=("names",)))
        self.assertEqual(self.names, self.read(_names))

    def test_other_rows_are_not_replaced(self) -> None:
        self.insert((1, "c"), (2, "b"))
        error = self.assertRaises(
            DatabaseNotEmpty, self.write, bootstrapped={("names", 1)}, replaced=("names",))
        self.assertIn("names has 1 rows (2)", str(error))
        self.assertEqual([(1, "c"), (2, "b")], self.read(_names))

    def test_of_many_rows_only_the_first_are_read(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f"{writing.__name__}._PAGE", 5))
        self.insert(*((number, f"n{number}") for number in range(100, 200)))
        fetched = []
        event = (sa.Engine, "before_cursor_execute", lambda *arguments: fetched.append(
            arguments[2]))
        sa.event.listen(*event)
        self.addCleanup(sa.event.remove, *event)
        error = self.assertRaises(
            DatabaseNotEmpty, self.write,
            bootstrapped={("names", number) for number in range(100, 107)})
        self.assertIn("names has rows (107, 108, 109, …)", str(error))
        self.assertEqual(3, len([text for text in fetched if "FROM names" in text]))

    def test_all_or_nothing(self) -> None:
        self.things.append(self.things[-1])
        self.assertRaises(RowRefused, self.write)
        self.assertEqual(([], []), (self.read(_names), self.read(_things)))

    def test_a_reader_that_fails_in_the_middle(self) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("in the middle")

        exporter = exports.Exporter("service", ("one",), ("names", "things"), self.list_rows)
        with testtools.ExpectedException(RuntimeError), \
                writing.open_target(exporter, self.url) as target:
            target.write(self.list_rows(), {"names": 3, "things": 5}, fail)
        self.assertEqual([], self.read(_names))

    def test_another_schema(self) -> None:
        self.assertRaises(UnknownSchema, self.write, schema=("two",))
        self.assertEqual([], self.read(_names))

    def test_a_table_that_is_not_there(self) -> None:
        _things.drop(self.engine)
        error = self.assertRaises(errors.ConfigurationError, self.write)
        self.assertIn("cannot be written", str(error))
        self.assertIn("things", str(error))


class TestUrls(base.TestCase):
    def test_what_is_no_url(self) -> None:
        exporter = exports.Exporter("service", ("one",), (), lambda _ctx: iter(()))
        for url, reason in (("oracle://user:secret@host/x", "is not one of"),
                            ("://", "is not a URL")):
            error = self.assertRaises(
                errors.ConfigurationError, writing.open_target(exporter, url).__enter__)
            self.assertIn(reason, str(error))
            self.assertNotIn("secret", str(error))
