"""The table of what was copied."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from placement_core.db.metadata import metadata, utcnow

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}

#: What came from which source; written in the transaction of the copy.
copied_records = sa.Table(
    "copied_records", metadata,
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(32), primary_key=True),
    sa.Column("record_id", sa.String(255), primary_key=True),
    sa.Column("copied_at", sa.DateTime, nullable=False, default=utcnow),
    **_MYSQL,
)
