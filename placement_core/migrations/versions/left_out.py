"""How many records a comparison with another service found that cannot be copied."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    steps.add_column(operations.Operations(op.get_context()), "comparisons",
                     sa.Column("left_out", sa.Integer))
