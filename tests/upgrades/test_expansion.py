"""Revisions after the previous release only add what its code can live with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import interfaces

from placement_core.db.database import Settings
from placement_core.migrations import revisions, sync
from tests import base, databases
from tests.faults import cloud as clouds
from tests.upgrades import previous_release, test_rolling

#: Tables (``table``) and columns (``table.column``) that the previous release does not use any
#: more, so that revisions after it may contract them. Empty it with each release.
CONTRACTED: Collection[str] = frozenset()


@databases.on_each_database
class TestRevisions(test_rolling.UpgradeTestCase):

    def test_they_only_add(self) -> None:
        """Writes of the previous release work on the schema of this version."""
        clouds.run_command(self.old, self.url, "db", "sync")
        with sa.create_engine(self.url, poolclass=sa.NullPool).connect() as connection:
            self.assertEqual(
                previous_release.read_head(self.old), revisions.current(connection))
            before = sa.inspect(connection).get_multi_columns()
            rules = read_rules(connection)
        sync.sync(Settings(self.url))
        with sa.create_engine(self.url, poolclass=sa.NullPool).connect() as connection:
            after = sa.inspect(connection).get_multi_columns()
            self.assertEqual(
                [], [*find_contractions(before, after, CONTRACTED),
                     *find_new_rules(rules, read_rules(connection))])


class TestContractions(base.TestCase):
    """What the check of revisions refuses."""

    def test_columns(self) -> None:
        for statements, problem in (
                (["DROP TABLE t"], "t is gone"),
                (["ALTER TABLE t RENAME TO u"], "t is gone"),
                (["ALTER TABLE t DROP COLUMN a"], "t.a is gone"),
                (["ALTER TABLE t RENAME COLUMN a TO b"], "t.a is gone"),
                (["DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL)"],
                 "t.a became NOT NULL"),
                (["DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)"],
                 "t.a became TEXT, was INTEGER"),
                (["DROP TABLE t",
                  "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER NOT NULL)"],
                 "t.b is new and NOT NULL without a default")):
            self.assertEqual([problem], self.find(*statements), statements)

    def test_rules(self) -> None:
        for statement in (
                "CREATE UNIQUE INDEX i ON t (a)",
                "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, UNIQUE (a))",
                "DROP TABLE t; CREATE TABLE t (id INTEGER, a INTEGER PRIMARY KEY)",
                "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, CHECK (a > 1))",
                "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, "
                "a INTEGER REFERENCES t (id))"):
            problems = self.find(*statement.split("; "))
            self.assertEqual(1, len(problems), statement)
            self.assertRegex(problems[0], "^t has a new rule: ")

    def test_additions(self) -> None:
        self.assertEqual([], self.find(
            "CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER NOT NULL UNIQUE)",
            "CREATE INDEX i ON t (a)",
            "ALTER TABLE t ADD COLUMN b INTEGER",
            "ALTER TABLE t ADD COLUMN c INTEGER NOT NULL DEFAULT 0"))

    def test_longer_texts(self) -> None:
        make, drop = "CREATE TABLE u (a {})", "DROP TABLE u"
        for old, new, problems in (
                ("VARCHAR(32)", "VARCHAR(64)", []),
                ("VARCHAR(32)", "TEXT", []),
                ("VARCHAR(64)", "VARCHAR(32)", ["u.a became VARCHAR(32), was VARCHAR(64)"]),
                ("TEXT", "VARCHAR(64)", ["u.a became VARCHAR(64), was TEXT"]),
                ("VARCHAR(32)", "INTEGER", ["u.a became INTEGER, was VARCHAR(32)"])):
            self.assertEqual(problems, self.find(
                drop, make.format(new), first=make.format(old)), (old, new))

    def test_what_is_not_used_any_more(self) -> None:
        self.assertEqual([], self.find("ALTER TABLE t DROP COLUMN a", contracted={"t.a"}))
        self.assertEqual([], self.find("DROP TABLE t", contracted={"t"}))

    def find(
        self, *statements: str, contracted: Collection[str] = (), first: str = ""
    ) -> list[str]:
        """Return what is found when statements change a table ``t``.

        :param first: makes another table before.
        """
        engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
            if first:
                connection.exec_driver_sql(first)
            before = sa.inspect(connection).get_multi_columns()
            rules = read_rules(connection)
            for statement in statements:
                connection.exec_driver_sql(statement)
            return [
                *find_contractions(
                    before, sa.inspect(connection).get_multi_columns(), contracted),
                *find_new_rules(rules, read_rules(connection))]


Columns = dict[interfaces.TableKey, list[interfaces.ReflectedColumn]]


def find_contractions(
    before: Columns, after: Columns, contracted: Collection[str]
) -> Iterator[str]:
    """Yield what code that knows the columns of ``before`` cannot live with."""
    for key, columns in before.items():
        table = key[1]
        if table in contracted:
            continue
        if key not in after:
            yield f"{table} is gone"
            continue
        new = {column["name"]: column for column in after[key]}
        for column in columns:
            name = column["name"]
            if f"{table}.{name}" not in contracted:
                yield from _find_changes(f"{table}.{name}", column, new.pop(name, None))
            else:
                new.pop(name, None)
        for name, column in new.items():
            if not (column["nullable"] or column["default"] is not None
                    or column.get("computed") or column.get("identity")):
                yield f"{table}.{name} is new and NOT NULL without a default"


def _find_changes(
    name: str, old: interfaces.ReflectedColumn, new: interfaces.ReflectedColumn | None
) -> Iterator[str]:
    if new is None:
        yield f"{name} is gone"
        return
    if old["nullable"] and not new["nullable"]:
        yield f"{name} became NOT NULL"
    if str(old["type"]) != str(new["type"]) and not _holds_more(new["type"], old["type"]):
        yield f"{name} became {new['type']}, was {old['type']}"


def _holds_more(new: sa.types.TypeEngine[Any], old: sa.types.TypeEngine[Any]) -> bool:
    """Say whether one type is the other for longer texts."""
    return (isinstance(new, sa.String) and isinstance(old, sa.String)
            and new.collation == old.collation and old.length is not None
            and (new.length is None or new.length >= old.length))


def read_rules(connection: sa.Connection) -> dict[str, set[Any]]:
    """Return {table: what restricts its rows: keys, unique indexes, references, checks}."""
    inspector = sa.inspect(connection)
    return {
        table: {
            ("primary key", *inspector.get_pk_constraint(table)["constrained_columns"]),
            *(("unique", *rule["column_names"])
              for rule in inspector.get_unique_constraints(table)),
            *(("unique", *rule["column_names"])
              for rule in inspector.get_indexes(table) if rule["unique"]),
            *(("reference", *rule["constrained_columns"], rule["referred_table"])
              for rule in inspector.get_foreign_keys(table)),
            *(("check", rule["sqltext"]) for rule in inspector.get_check_constraints(table)),
        } for table in inspector.get_table_names()}


def find_new_rules(before: dict[str, set[Any]], after: dict[str, set[Any]]) -> list[str]:
    """Return rules of tables that were there before, which their writers do not know."""
    return [f"{table} has a new rule: {rule}" for table, rules in before.items()
            for rule in sorted(after.get(table, set()) - rules)]
