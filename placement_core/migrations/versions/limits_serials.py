"""The heads of the change log know when limits changed last (see ``changes.revisions``)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # 0 is older than all limits: a version that does not mark heads may go on beside this one.
    steps.add_column(
        operations.Operations(op.get_context()), "change_heads",
        sa.Column("limits_serial", sa.BigInteger, nullable=False, server_default="0"))
