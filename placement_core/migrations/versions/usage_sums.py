"""Usage of everybody in a project: how far the sums over its users are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("online_migrations",)
#: What the migration is called that sums up.
NAME = "usage_sums"


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "online_migrations",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.Boolean, nullable=False),
        times=False,
    )
    table = sa.table("online_migrations", *map(sa.column, ("name", "position", "finished")))
    connection = on.get_bind()
    if connection.scalar(sa.select(table.c.name).where(table.c.name == NAME)) is None:
        connection.execute(
            sa.insert(table), {"name": NAME, "position": 0, "finished": False})
