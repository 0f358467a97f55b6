"""How full the limits of a node are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

#: What the migration is called after which all processes keep it.
NAME = "limit_fullness"


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.add_column(on, "limit_nodes", sa.Column("fullness", sa.BigInteger))
    steps.add_column(on, "limit_nodes", sa.Column("fullness_of", sa.BigInteger))
    table = sa.table("online_migrations", *map(sa.column, ("name", "position", "finished")))
    connection = on.get_bind()
    if connection.scalar(sa.select(table.c.name).where(table.c.name == NAME)) is None:
        connection.execute(
            sa.insert(table), {"name": NAME, "position": 0, "finished": False})
