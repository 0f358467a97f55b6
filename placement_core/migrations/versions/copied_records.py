"""What was copied from other services."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("copied_records",)


def upgrade() -> None:
    steps.create_table(
        operations.Operations(op.get_context()), "copied_records",
        sa.Column("source", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("record_id", sa.String(255), primary_key=True),
        sa.Column("copied_at", sa.DateTime, nullable=False),
        times=False,
    )
