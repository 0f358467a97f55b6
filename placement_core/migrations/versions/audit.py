"""The audit: who changed what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("audit_log",)

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    steps.create_table(
        operations.Operations(op.get_context()), "audit_log",
        sa.Column("txn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", _DEADLINE, nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("project_id", sa.String(255)),
        sa.Column("request_id", sa.String(255)),
        sa.Column("operation", sa.String(255)),
        sa.Column("kind", sa.String(32)),
        sa.Column("uuid", sa.String(64)),
        sa.Column("name", sa.Unicode(255)),
        indexes={"audit_log_at_idx": ["at", "txn", "position"],
                 "audit_log_request_id_idx": ["request_id"], "audit_log_uuid_idx": ["uuid"]},
        times=False,
    )
