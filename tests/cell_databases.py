"""Databases of cells that have the tables that we use, and no rows.

SQLite: a new file each time. PostgreSQL and MariaDB: databases of the process's own, emptied
each time, dropped at exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import tempfile

import sqlalchemy as sa

from placement_core.cells import cell_tables
from tests import databases

_made: dict[tuple[str, int], sa.URL] = {}
#: By URL: to connect takes ten times as long as a statement.
_engines: dict[str, sa.Engine] = {}


def empty(kind: str, number: int) -> str:
    """Return the URL of the ``number``\\ th database of a test."""
    if kind == "sqlite":
        template = _make_file()
        folder = tempfile.mkdtemp(prefix="cell-", dir=template.parent)
        return f"sqlite:///{shutil.copy(template, pathlib.Path(folder, 'cell.sqlite'))}"
    if (kind, number) not in _made:
        _made[kind, number] = _make_database(kind, number)
    url = _made[kind, number]
    try:
        databases.remove_rows(url, ())
    except sa.exc.DBAPIError:
        # Some tests drop a table: so a cell is broken.
        cell_tables.metadata.create_all(_engines[_spell(url)])
        databases.remove_rows(url, ())
    return _spell(url)


def open_engine(url: str) -> sa.Engine:
    """Return an engine for what a test does beside the service."""
    return _engines.get(url) or sa.create_engine(url, poolclass=sa.NullPool)


def _spell(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


def _make_database(kind: str, number: int) -> sa.URL:
    own = databases.server_database(kind)
    name = f"{own.database}_cell{number}"
    server = sa.make_url(os.environ[databases.VARIABLES[kind]]).set(drivername=own.drivername)
    databases.administer(server, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    atexit.register(databases.administer, server, f"DROP DATABASE IF EXISTS {name}")
    url = own.set(database=name)
    engine = sa.create_engine(url, pool_size=1, pool_pre_ping=True)
    _engines[_spell(url)] = engine
    cell_tables.metadata.create_all(engine)
    return url


@functools.cache
def _make_file() -> pathlib.Path:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-cells-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "template.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    cell_tables.metadata.create_all(engine)
    return path
