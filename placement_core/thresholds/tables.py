"""The tables of thresholds."""

import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata

#: The thresholds that are reached now: what was measured when ``level`` was reached. ``uuid`` is
#: made from what is measured (``levels.Subject``).
reached_thresholds = sa.Table(
    "reached_thresholds", metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("level", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("node_id", sa.String(255)),
    sa.Column("scope", sa.String(32)),
    sa.Column("resource_name", sa.Text, nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("bound", sa.BigInteger, nullable=False),
    sa.Column("measured", sa.BigInteger, nullable=False),
    sa.Column("reached_at", clock.DEADLINE, nullable=False),
    **MYSQL_OPTIONS,
)

#: The thresholds that were left: what was measured then, which is NULL if the limit was no more.
left_thresholds = sa.Table(
    "left_thresholds", metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("node_id", sa.String(255)),
    sa.Column("scope", sa.String(32)),
    sa.Column("resource_name", sa.Text, nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("bound", sa.BigInteger),
    sa.Column("measured", sa.BigInteger),
    sa.Column("reached_at", clock.DEADLINE, nullable=False),
    sa.Column("left_at", clock.DEADLINE, nullable=False),
    **MYSQL_OPTIONS,
)

#: Reports that are still to be sent: to the URL with this digest, in the order of their ids.
webhook_deliveries = sa.Table(
    "webhook_deliveries", metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("target", sa.String(64), nullable=False),
    sa.Column("event_id", sa.String(36), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("deadline_at", clock.DEADLINE),
    sa.Column("next_at", clock.DEADLINE, nullable=False),
    sa.Column("give_up_at", clock.DEADLINE, nullable=False),
    sa.Index("webhook_deliveries_target_idx", "target", "id"),
    **MYSQL_OPTIONS,
)
