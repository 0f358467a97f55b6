"""Texts of leases: what clients are shown of them, written beforehand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("lease_texts",)


def upgrade() -> None:
    steps.create_table(
        operations.Operations(op.get_context()), "lease_texts",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("lease_id", sa.String(36), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("text", sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql"), nullable=False),
        times=False,
    )
