"""The table of what was copied."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.db.metadata import MYSQL_OPTIONS, metadata, utcnow

#: What came from which source; written in the transaction of the copy.
copied_records = sa.Table(
    "copied_records", metadata,
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(32), primary_key=True),
    sa.Column("record_id", sa.String(255), primary_key=True),
    sa.Column("copied_at", sa.DateTime, nullable=False, default=utcnow),
    **MYSQL_OPTIONS,
)
