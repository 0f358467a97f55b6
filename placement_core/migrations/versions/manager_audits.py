"""Managers tell what their audits found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.add_column(on, "managers", sa.Column("audited_at", _DEADLINE))
    steps.add_column(on, "managers", sa.Column("audit_findings", sa.Integer))
