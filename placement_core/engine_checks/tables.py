"""The tables of the checks: made for one run, and dropped at its end."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from placement_core.changes import tables as change_tables
from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS

#: What the names of all that a run makes begin with.
PREFIX = "placement_core_engine_check"


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one run.

    :ivar rows: rows with a number from the database, a unique name and amounts.
    :ivar parts: rows that refer to those.
    :ivar sums: amounts by a key of two columns.
    :ivar heads, changes: as those of the change log.
    :ivar ddl: a table that exists in one check only.
    """

    metadata: sa.MetaData
    rows: sa.Table
    parts: sa.Table
    sums: sa.Table
    heads: sa.Table
    changes: sa.Table
    ddl: sa.Table


def build(suffix: str) -> Tables:
    """Describe the tables of a run; nothing is created.

    :param suffix: tells runs apart.
    """
    metadata = sa.MetaData()
    prefix = f"{PREFIX}_{suffix}"
    rows = sa.Table(
        f"{prefix}_rows", metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False, default=0),
        sa.Column("text", sa.Text),
        sa.Column("at", clock.DEADLINE),
        sa.UniqueConstraint("name"),
        **MYSQL_OPTIONS)
    return Tables(
        metadata, rows,
        parts=sa.Table(
            f"{prefix}_parts", metadata,
            sa.Column("row_id", sa.ForeignKey(rows.c.id), primary_key=True),
            **MYSQL_OPTIONS),
        sums=sa.Table(
            f"{prefix}_sums", metadata,
            sa.Column("owner", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("kind", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("amount", sa.BigInteger, nullable=False),
            **MYSQL_OPTIONS),
        heads=change_tables.change_heads.to_metadata(metadata, name=f"{prefix}_heads"),
        changes=change_tables.changes.to_metadata(metadata, name=f"{prefix}_changes"),
        ddl=sa.Table(
            f"{prefix}_ddl", sa.MetaData(),
            sa.Column("id", sa.Integer, primary_key=True), **MYSQL_OPTIONS))
