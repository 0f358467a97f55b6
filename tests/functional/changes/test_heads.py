"""Reading the heads of the change log stays cheap, whatever a vacuum left of their table."""

from __future__ import annotations

import random
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import tables, vector
from tests import base, databases

#: So often all heads are written anew, as each change of limits does. PostgreSQL compares what it
#: costs to read all pages with four pages for each head that it expects, a third of all: with
#: fewer changes, where the heads are in no order, it reads all.
_CHANGES = 400
_BLOCKS = "SELECT pg_relation_size('change_heads') / current_setting('block_size')::int"


class TestHeadsOnPostgreSQL(base.DatabaseTestCase):

    kind = "postgresql"

    def setUp(self) -> None:
        if self.kind not in databases.KINDS:
            self.skipTest("There is no PostgreSQL.")
        super().setUp()

    def test_pages_without_heads_are_not_read(self) -> None:
        # Before and after: other tests leave versions, too.
        self.run_alone("VACUUM FULL change_heads")
        self.addCleanup(self.run_alone, "VACUUM FULL change_heads")
        with self.database.writer.begin() as connection:
            # As transactions leave them, which write one or two heads each.
            slots = list(range(tables.SLOTS))
            random.shuffle(slots)
            for slot in slots:
                connection.execute(
                    sa.update(tables.change_heads).where(tables.change_heads.c.slot == slot)
                    .values(limits_serial=tables.change_heads.c.limits_serial + 1))
            # In one transaction, so that none of the versions is removed meanwhile.
            for _ in range(_CHANGES):
                connection.execute(sa.update(tables.change_heads).values(
                    limits_serial=tables.change_heads.c.limits_serial + 1))
        self.run_alone("VACUUM ANALYZE change_heads")
        with db.read(self.ctx) as session:
            texts = vector.read_current(session).texts
        with self.database.autocommit.connect() as connection:
            blocks = connection.scalar(sa.text(_BLOCKS))
            self.assertGreater(blocks, 100)
            for read, parameters in (
                    (vector._DIGEST, {}), (vector._HEADS, {}),
                    (vector._MOVED, {**texts, "most": 9})):
                looked_at = _count_blocks(connection, read._statement, parameters)
                self.assertLess(2 * looked_at, blocks)

    def run_alone(self, statement: str) -> None:
        """Execute what no transaction may have."""
        with self.database.autocommit.connect() as connection:
            connection.exec_driver_sql(statement)


def _count_blocks(
    connection: sa.Connection, statement: sa.Select[Any], parameters: dict[str, Any]
) -> int:
    """Return how many blocks the database looks at for a statement."""
    # PostgreSQL does not guess the types of constants, nor SQLAlchemy write a limit as one.
    compiled = statement.params(parameters).compile(
        dialect=connection.dialect, compile_kwargs={"literal_binds": not parameters})
    [plan] = connection.exec_driver_sql(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {compiled}",
        compiled.params if parameters else None).scalar_one()
    return plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
