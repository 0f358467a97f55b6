"""A database like Keystone's, where a real one would only take time: an SQLite file."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.takeover import keystone

#: Those of columns that have no texts.
_TYPES = {
    "enabled": sa.Boolean, "is_domain": sa.Boolean, "internal_id": sa.Integer,
    "default_limit": sa.Integer, "resource_limit": sa.Integer}


def make(path: pathlib.Path, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Make one; return its URL.

    :param rows: of its tables, by name.
    """
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
        for version in keystone.SCHEMA:
            connection.execute(sa.text("INSERT INTO alembic_version VALUES (:version)"),
                               {"version": version})
        for table in keystone.TABLES:
            connection.execute(sa.schema.CreateTable(sa.Table(
                table.name, sa.MetaData(), *(
                    sa.Column(column.name, _TYPES.get(column.name, sa.Text))
                    for column in table.c))))
            for _, alike in itertools.groupby(rows.get(table.name, ()), frozenset):
                connection.execute(sa.insert(table), list(alike))
    return f"sqlite:///{path}"
