"""Keystone's own databases, made by ``keystone-manage db_sync`` of the installed Keystone.

``empty(kind)`` returns the URL of one as it is right after that, ``copy(kind, path)`` that of one
with the rows of another Keystone; ``kind`` is that of ``tests.databases``. SQLite: a new file each
time. PostgreSQL and MariaDB: a database of the process's own, emptied each time, dropped at exit.
"""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from cryptography import fernet

from tests import databases

_RUN = "import sys; from keystone.cmd import manage; sys.exit(manage.main())"
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}

_made: dict[str, sa.URL] = {}
#: What its migrations insert, by the name of the table.
_first_rows: dict[str, dict[str, Sequence[Any]]] = {}


def empty(kind: str) -> str:
    """Return the URL of a database of Keystone, as its migrations leave it."""
    if kind not in _made:
        _made[kind] = _make(kind)
        _first_rows[kind] = _read_rows(_made[kind])
    elif kind != "sqlite":
        _restore(_made[kind], _first_rows[kind])
    url = _made[kind]
    if kind == "sqlite":
        assert url.database is not None
        folder = tempfile.mkdtemp(prefix="copy-", dir=pathlib.Path(url.database).parent)
        url = url.set(database=shutil.copy(url.database, folder))
    return url.render_as_string(hide_password=False)


def copy(kind: str, path: pathlib.Path) -> str:
    """Return the URL of a database with what a Keystone has in an SQLite file."""
    if kind == "sqlite":
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-keystone-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return f"sqlite:///{shutil.copy(path, folder)}"
    url = empty(kind)
    _restore(sa.make_url(url), _read_rows(sa.make_url(f"sqlite:///{path}")))
    return url


def insert(url: str, rows: Iterable[tuple[str, Mapping[str, object]]]) -> None:
    """Insert rows, each with the name of its table, whether or not what they name is there."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        _heed_nothing(connection)
        tables = _reflect(connection).tables
        for name, values in rows:
            connection.execute(sa.insert(tables[name]), dict(values))


def run_keystone_manage(url: str, *arguments: str) -> None:
    """Run a command of ``keystone-manage`` on a database."""
    with tempfile.TemporaryDirectory() as folder:
        conf = pathlib.Path(folder, "keystone.conf")
        conf.write_text(
            f"[database]\nconnection = {url}\n[fernet_tokens]\nkey_repository = {folder}/keys\n"
            f"[fernet_receipts]\nkey_repository = {folder}/keys\n"
            f"[credential]\nkey_repository = {folder}/keys\n"
            "[identity]\npassword_hash_rounds = 4\n")
        keys = pathlib.Path(folder, "keys")
        keys.mkdir(mode=0o700)
        for name in "01":
            (keys / name).write_bytes(fernet.Fernet.generate_key())
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _RUN, "--config-file", str(conf), *arguments],
            capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"keystone-manage {arguments[0]} failed:\n{done.stderr}")


def _make(kind: str) -> sa.URL:
    if kind == "sqlite":
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-keystone-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        url = sa.make_url(f"sqlite:///{folder}/keystone.sqlite")
    else:
        server = sa.make_url(os.environ[databases.VARIABLES[kind]]).set(
            drivername=_DRIVERS[kind])
        name = f"placement_test_{os.getpid()}_keystone"
        databases.administer(
            server, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        atexit.register(databases.administer, server, f"DROP DATABASE IF EXISTS {name}")
        url = server.set(database=name)
    run_keystone_manage(url.render_as_string(hide_password=False), "db_sync")
    return url


def _reflect(connection: sa.Connection) -> sa.MetaData:
    metadata = sa.MetaData()
    metadata.reflect(connection, resolve_fks=False)
    return metadata


def _read_rows(url: sa.URL) -> dict[str, Sequence[Any]]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        tables = _reflect(connection).tables
        return {name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
                for name, table in tables.items()}


def _restore(url: sa.URL, rows: dict[str, Sequence[Any]]) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        _heed_nothing(connection)
        for name, table in _reflect(connection).tables.items():
            connection.execute(sa.delete(table))
            if rows[name]:
                connection.execute(sa.insert(table), rows[name])


def _heed_nothing(connection: sa.Connection) -> None:
    """Let no reference be checked; SQLite checks none by itself."""
    careless = {"postgresql": "SET session_replication_role = replica",
                "mysql": "SET FOREIGN_KEY_CHECKS = 0"}.get(connection.dialect.name)
    if careless is not None:
        connection.exec_driver_sql(careless)
