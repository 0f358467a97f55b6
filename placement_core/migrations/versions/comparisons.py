"""What comparisons with other services came to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ("comparisons", "comparison_findings")

_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "comparisons",
        sa.Column("run_id", sa.String(32), primary_key=True),
        sa.Column("source", sa.String(32), primary_key=True),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("finished_at", _MOMENT),
        sa.Column("compared", sa.Integer, nullable=False),
        sa.Column("differences", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32)),
        sa.Column("record_id", sa.String(255)),
        times=False,
    )
    steps.create_table(
        on, "comparison_findings",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("source", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("record_id", sa.String(255), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("differences", sa.Text, nullable=False),
        indexes={"comparison_findings_run_id_source_idx": ["run_id", "source"]},
        times=False,
    )
