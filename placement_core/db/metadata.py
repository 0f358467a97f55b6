"""The one collection of tables, and the columns every upstream table has."""

import datetime

import sqlalchemy as sa

metadata = sa.MetaData()


def utcnow() -> datetime.datetime:
    """Return the present as naive UTC: what upstream's columns hold."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def timestamps() -> tuple[sa.Column[datetime.datetime], sa.Column[datetime.datetime]]:
    """Return the nullable ``created_at`` and ``updated_at`` of upstream's tables."""
    return (
        sa.Column("created_at", sa.DateTime, default=utcnow),
        sa.Column("updated_at", sa.DateTime, onupdate=utcnow),
    )
