"""The change log names what was deleted, and the projects that own what changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable, without a default: a version that does not know them may go on beside this one.
    on = operations.Operations(op.get_context())
    for column in (sa.Column("uuid", sa.String(64)), sa.Column("name", sa.Unicode(255)),
                   sa.Column("project", sa.String(255))):
        steps.add_column(on, "changes", column)
