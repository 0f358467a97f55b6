"""What nothing refers to any more, since when; and when limit nodes were locked last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("unused_names",)

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "unused_names",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("row_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("since", _DEADLINE, nullable=False),
        times=False,
    )
    steps.add_column(on, "limit_nodes", sa.Column("locked_at", _DEADLINE))
