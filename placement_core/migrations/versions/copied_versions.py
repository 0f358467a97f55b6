"""What a copy of another service's lease left of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    steps.add_column(operations.Operations(op.get_context()), "leases",
                     sa.Column("copied_version", sa.Integer))
