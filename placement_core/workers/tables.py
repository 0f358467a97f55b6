"""The tables of workers and of what they refused."""

import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata

#: A row for each process that serves, which it updates every few seconds. ``codes`` is JSON:
#: {code of an error: how often}.
workers = sa.Table(
    "workers", metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("process_id", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("started_at", clock.DEADLINE, nullable=False),
    sa.Column("seen_at", clock.DEADLINE, nullable=False),
    sa.Column("index_read_at", clock.DEADLINE),
    sa.Column("index_providers", sa.Integer),
    sa.Column("in_flight", sa.Integer, nullable=False),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("refusals", sa.BigInteger, nullable=False),
    sa.Column("refusals_last_minute", sa.BigInteger, nullable=False),
    sa.Column("codes", sa.Text, nullable=False),
    **MYSQL_OPTIONS,
)

#: What a worker refused last. It has a fixed number of slots: an equal refusal counts in the slot
#: of the first one, another one takes the slot of the oldest.
refusals = sa.Table(
    "refusals", metadata,
    sa.Column("worker_uuid", sa.String(36), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", clock.DEADLINE, nullable=False),
    sa.Column("first_at", clock.DEADLINE, nullable=False),
    sa.Column("times", sa.BigInteger, nullable=False),
    sa.Column("operation", sa.String(255), nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("code", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255)),
    sa.Column("user_id", sa.String(255)),
    sa.Column("request_id", sa.String(255)),
    sa.Column("detail", sa.Unicode(255)),
    sa.Index("refusals_at_idx", "at"),
    **MYSQL_OPTIONS,
)
