"""Texts that a column starts with, ends with or contains, on each database."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.db import patterns
from tests import base, databases

_NAMES = ("gold", "Gold", "old%", "g[o]ld", "go/ld", "g_ld", "g*?")


@databases.on_each_database
class TestPatterns(base.DatabaseTestCase):
    def found(self, text: str, where: patterns.Where, *, ignore_case: bool = False) -> list[str]:
        rows = sa.union_all(*(
            sa.select(sa.collate(sa.cast(sa.literal(name), sa.String(20)), "utf8mb4_bin")
                      if self.kind == "mysql" else sa.cast(sa.literal(name), sa.String(20)))
            for name in _NAMES)).subquery("names")
        [column] = rows.c
        statement = sa.select(column).where(
            column != "", patterns.matches(column, "text", where, ignore_case=ignore_case))
        with self.database.autocommit.connect() as connection:
            return sorted(connection.execute(statement, {"text": text}).scalars())

    def test_upper_and_lower_case(self) -> None:
        self.assertEqual(["Gold"], self.found("Go", "startswith"))
        self.assertEqual(["Gold", "go/ld", "gold"], self.found("Go", "startswith",
                                                               ignore_case=True))

    def test_marks_mean_themselves(self) -> None:
        self.assertEqual(["old%"], self.found("%", "endswith"))
        self.assertEqual(["g_ld"], self.found("_", "contains"))
        self.assertEqual(["g[o]ld"], self.found("[o]", "contains"))
        self.assertEqual(["g*?"], self.found("*?", "contains"))
        self.assertEqual(["go/ld"], self.found("/", "contains", ignore_case=True))

    def test_ends(self) -> None:
        self.assertEqual(["Gold", "gold"], self.found("old", "endswith"))
        self.assertEqual(["old%"], self.found("old", "startswith"))
        self.assertEqual(sorted(_NAMES), self.found("", "contains"))
