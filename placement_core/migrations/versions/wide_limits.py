"""Limits keep the ids and the descriptions that they have in Keystone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = ()


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    for table in ("registered_limits", "limits", "user_limits"):
        steps.widen_columns(on, table, {
            "uuid": sa.String(64), "description": sa.UnicodeText()})
    steps.widen_columns(on, "limit_history", {"limit_uuid": sa.String(64)})
