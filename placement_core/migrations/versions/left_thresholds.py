"""Thresholds that were left."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("left_thresholds",)

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    steps.create_table(
        operations.Operations(op.get_context()), "left_thresholds",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("node_id", sa.String(255)),
        sa.Column("scope", sa.String(32)),
        sa.Column("resource_name", sa.Text, nullable=False),
        sa.Column("bound", sa.BigInteger),
        sa.Column("measured", sa.BigInteger),
        sa.Column("reached_at", _DEADLINE, nullable=False),
        sa.Column("left_at", _DEADLINE, nullable=False),
        times=False,
    )
