"""The one collection of tables, and the columns every upstream table has."""

import datetime
from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()

#: What all tables have on MySQL: a binary collation, so that names and ids compare by their
#: characters, as on every other database.
MYSQL_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def utcnow() -> datetime.datetime:
    """Return the present as naive UTC: what upstream's columns hold."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def timestamps() -> tuple[sa.Column[datetime.datetime], sa.Column[datetime.datetime]]:
    """Return the nullable ``created_at`` and ``updated_at`` of upstream's tables."""
    return (
        sa.Column("created_at", sa.DateTime, default=utcnow),
        sa.Column("updated_at", sa.DateTime, onupdate=utcnow),
    )
