"""Workers report how they do, and what they refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("workers", "refusals")

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "workers",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("process_id", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("started_at", _DEADLINE, nullable=False),
        sa.Column("seen_at", _DEADLINE, nullable=False),
        sa.Column("index_read_at", _DEADLINE),
        sa.Column("index_providers", sa.Integer),
        sa.Column("in_flight", sa.Integer, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("refusals", sa.BigInteger, nullable=False),
        sa.Column("refusals_last_minute", sa.BigInteger, nullable=False),
        sa.Column("codes", sa.Text, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "refusals",
        sa.Column("worker_uuid", sa.String(36), primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", _DEADLINE, nullable=False),
        sa.Column("first_at", _DEADLINE, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String(255), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("code", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255)),
        sa.Column("user_id", sa.String(255)),
        sa.Column("request_id", sa.String(255)),
        sa.Column("detail", sa.Unicode(255)),
        indexes={"refusals_at_idx": ["at"]},
        times=False,
    )
