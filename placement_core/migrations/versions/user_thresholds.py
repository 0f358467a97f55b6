"""Thresholds of the limits of users."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_TABLES = ("reached_thresholds", "left_thresholds")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    for table in _TABLES:
        steps.add_column(on, table, sa.Column("user_id", sa.String(255)))
