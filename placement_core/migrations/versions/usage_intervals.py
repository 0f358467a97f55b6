"""Usage intervals: since when allocations are held, and who held what before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.db import clock
from placement_core.migrations import steps

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

#: Columns that upstream's tables do not have: {table: names}.
ADDED_COLUMNS = {"allocations": ("started_at",)}
#: Tables that upstream does not have.
OWN_TABLES = ("usage_intervals", "usage_interval_bounds")

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.add_column(on, "allocations", sa.Column("started_at", _DEADLINE))
    steps.create_table(
        on, "usage_intervals",
        sa.Column("consumer_uuid", sa.String(36), primary_key=True),
        sa.Column("started_at", _DEADLINE, primary_key=True),
        sa.Column("allocation_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ended_at", _DEADLINE, nullable=False),
        sa.Column("consumer_type", sa.Unicode(255)),
        sa.Column("project_id", sa.String(255)),
        sa.Column("user_id", sa.String(255)),
        sa.Column("provider_uuid", sa.String(36), nullable=False),
        sa.Column("resource_class", sa.String(255), nullable=False),
        sa.Column("amount", sa.Integer, nullable=False),
        indexes={"usage_intervals_project_id_idx": ["project_id", "consumer_uuid"],
                 "usage_intervals_ended_at_idx": ["ended_at"]},
        times=False,
    )
    steps.create_table(
        on, "usage_interval_bounds",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("complete_since", _DEADLINE, nullable=False),
        times=False,
    )
    connection = on.get_bind()
    bounds = sa.table("usage_interval_bounds", sa.column("id"), sa.column("complete_since"))
    if connection.scalar(sa.select(bounds.c.id)) is None:
        connection.execute(sa.insert(bounds).values(id=1, complete_since=clock.now()))
    allocations = sa.table("allocations", *map(sa.column, ("started_at", "created_at")))
    # Upstream's column allows it, though upstream writes none.
    connection.execute(
        sa.update(allocations)
        .where(allocations.c.created_at.is_(None), allocations.c.started_at.is_(None))
        .values(started_at=clock.now()))
