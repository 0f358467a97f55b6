"""Blazar's own database, made by the installed Blazar.

``empty(kind)`` returns the URL of one with Blazar's schema and no rows; ``kind`` is that of
``tests.databases``. On MariaDB, Blazar's migrations make it. They run nowhere else, so on
PostgreSQL and SQLite its models make the tables. On SQLite it is a new file each time; elsewhere
one of the process's own, emptied each time, dropped at exit.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tests import databases

#: Whether there is one to be had.
INSTALLED = importlib.util.find_spec("blazar") is not None

_MIGRATE = "from blazar.db.migration import cli; cli.main()"
_MODELS = """
import sqlalchemy as sa
from blazar.db.sqlalchemy import models
models.Lease.metadata.create_all(sa.create_engine(URL))
"""
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}

_made: dict[str, sa.URL] = {}


def empty(kind: str) -> str:
    """Return the URL of an empty database of Blazar."""
    if kind == "sqlite":
        template = _made.get(kind) or _make_file()
        copy = tempfile.mkdtemp(prefix="blazar-", dir=pathlib.Path(template.database).parent)
        return f"sqlite:///{shutil.copy(template.database, copy)}"
    if kind in _made:
        databases.remove_rows(_made[kind], ("alembic_version",))
    else:
        _make_database(kind)
    return _made[kind].render_as_string(hide_password=False)


def write_cloud(url: str, step: str) -> dict[str, str]:
    """Have Blazar's own code write a step of ``tests.blazar_cloud``.

    :returns: {name of a lease: its id}.
    """
    return dict(json.loads(_run_configured(
        sa.make_url(url), "-m", f"{__package__}.blazar_cloud", arguments=[step])))


class Tables:
    """Blazar's tables, as they are in a database."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self._metadata = sa.MetaData()
        self._metadata.reflect(self._engine)

    def dispose(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def insert(self, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Insert rows in this order, each with the name of its table, in one transaction."""
        with self._engine.begin() as connection:
            for name, values in rows:
                connection.execute(sa.insert(self._metadata.tables[name]), dict(values))

    def update(self, table_name: str, id_: str, **values: object) -> None:
        """Change a row."""
        table = self._metadata.tables[table_name]
        with self._engine.begin() as connection:
            done = connection.execute(
                sa.update(table).where(table.c.id == id_).values(**values))
            assert done.rowcount == 1, (table_name, id_)

    def rename_revision(self, revision: str) -> None:
        """Say that the schema is another one."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(sa.table(
                "alembic_version", sa.column("version_num"))).values(version_num=revision))

    def delete(self, name: str, **values: object) -> None:
        """Delete the rows with some values."""
        table = self._metadata.tables[name]
        with self._engine.begin() as connection:
            done = connection.execute(sa.delete(table).where(
                *(table.c[column] == value for column, value in values.items())))
            assert done.rowcount, (name, values)


def _make_file() -> sa.URL:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-blazar-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = sa.make_url(f"sqlite:///{folder}/blazar.sqlite")
    _make_tables(url)
    _made["sqlite"] = url
    return url


def _make_database(kind: str) -> None:
    server = sa.make_url(os.environ[databases.VARIABLES[kind]]).set(drivername=_DRIVERS[kind])
    database = f"placement_test_{os.getpid()}_blazar"
    databases.administer(
        server, f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    atexit.register(databases.administer, server, f"DROP DATABASE IF EXISTS {database}")
    url = server.set(database=database)
    if kind == "mysql":
        url = url.update_query_dict({"charset": "utf8"})
    if kind == "mysql":
        _migrate(url, "upgrade")
    else:
        _make_tables(url)
    _made[kind] = url


def _make_tables(url: sa.URL) -> None:
    """Have Blazar's models make the tables."""
    _run("-c", f"URL = {url.render_as_string(hide_password=False)!r}\n{_MODELS}")
    _migrate(url, "stamp")


def _migrate(url: sa.URL, command: str) -> None:
    """Have Blazar bring its schema, or what is said of it, to the newest revision."""
    _run_configured(url, "-c", _MIGRATE, arguments=[command, "head"])


def _run_configured(url: sa.URL, *program: str, arguments: Sequence[str]) -> str:
    """Run a program of Python with a configuration of Blazar; return what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        conf = pathlib.Path(folder, "blazar.conf")
        conf.write_text(
            f"[database]\nconnection = {url.render_as_string(hide_password=False)}\n")
        return _run(*program, "--config-file", str(conf), *arguments)


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"Blazar's own code failed:\n{done.stderr}")
    return done.stdout
