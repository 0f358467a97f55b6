"""Thresholds that are reached, and their reports to webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("reached_thresholds", "webhook_deliveries")

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "reached_thresholds",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("node_id", sa.String(255)),
        sa.Column("scope", sa.String(32)),
        sa.Column("resource_name", sa.Text, nullable=False),
        sa.Column("bound", sa.BigInteger, nullable=False),
        sa.Column("measured", sa.BigInteger, nullable=False),
        sa.Column("reached_at", _DEADLINE, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "webhook_deliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("event_id", sa.String(36), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("deadline_at", _DEADLINE),
        sa.Column("next_at", _DEADLINE, nullable=False),
        sa.Column("give_up_at", _DEADLINE, nullable=False),
        indexes={"webhook_deliveries_target_idx": ["target", "id"]},
        times=False,
    )
