"""Managers tell that they live."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("managers",)

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    steps.create_table(
        operations.Operations(op.get_context()), "managers",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("seen_at", _DEADLINE, nullable=False),
        times=False,
    )
