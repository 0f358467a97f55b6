"""Databases for tests: one for each test process and kind, emptied for each test.

SQLite always. PostgreSQL and MariaDB where ``PLACEMENT_TEST_POSTGRESQL`` and
``PLACEMENT_TEST_MYSQL`` hold the URL of a server's database; a database of the
process's own is made beside it and dropped at exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Collection
from typing import Any

import pymysql.connections
import sqlalchemy as sa

from placement_core.changes.journal import Journal
from placement_core.db.database import Database, Settings
from placement_core.migrations import schema
from tests import compiled_cache

VARIABLES = {"postgresql": "PLACEMENT_TEST_POSTGRESQL", "mysql": "PLACEMENT_TEST_MYSQL"}
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}

#: The kinds of database that this run tests on.
KINDS = ("sqlite", *(kind for kind, name in VARIABLES.items() if os.environ.get(name)))

_made: dict[str, sa.URL] = {}
#: For each server's database that has tables: what empties it.
_cleaners: dict[str, sa.Engine] = {}


def _share_certificates() -> None:
    """Let PyMySQL read the certificates of this machine once, not for each connection.

    The service's own connections do (``db/pymysql_connections.py``). Those of the tests, and of
    oslo.db in other services' code, would take 20 ms of a processor each.
    """
    create = pymysql.connections.Connection._create_ssl_ctx

    @functools.cache
    def create_default() -> Any:
        return create(None, {})

    pymysql.connections.Connection._create_ssl_ctx = (
        lambda connection, options: create(connection, options) if options else create_default())


_share_certificates()
compiled_cache.share()


def on_each_database(cls):
    """Make a class of tests run on every kind of database (class decorator).

    The class itself runs on SQLite; for each other kind a subclass with the
    kind in its name joins it in its module.
    """
    import sys

    module = sys.modules[cls.__module__]
    for kind in KINDS[1:]:
        name = f"{cls.__name__}On{ {'postgresql': 'PostgreSQL', 'mysql': 'MySQL'}[kind]}"
        setattr(module, name, type(name, (cls,), {"kind": kind, "__module__": cls.__module__}))
    return cls


def settings(kind: str) -> Settings:
    """Return settings for an empty database of ``kind`` with standard names in it."""
    if kind == "sqlite":
        template = _sqlite_template()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-test-", dir=template.parent))
        copy = folder / "placement.sqlite"
        shutil.copy(template, copy)
        return Settings(f"sqlite:///{copy}", sqlite_synchronous=False)
    url = server_database(kind)
    made = Settings(url.render_as_string(hide_password=False))
    if kind in _cleaners:
        schema.delete_rows(_cleaners[kind])
    else:
        schema.create(made.connection)
        _cleaners[kind] = schema.make_engine(made.connection)
    return made


def server_database(kind: str) -> sa.URL:
    """Return the URL of this process's own database on a server; make it at first."""
    if kind not in _made:
        server = sa.make_url(os.environ[VARIABLES[kind]]).set(drivername=_DRIVERS[kind])
        name = f"placement_test_{os.getpid()}"
        administer(server, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        atexit.register(administer, server, f"DROP DATABASE IF EXISTS {name}")
        _made[kind] = server.set(database=name)
    return _made[kind]


def administer(server: sa.URL, *statements: str) -> None:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            if statement.startswith("DROP") and server.get_backend_name() == "postgresql":
                statement += " WITH (FORCE)"
            connection.exec_driver_sql(statement)


def _sqlite_template() -> pathlib.Path:
    if "sqlite" not in _made:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-tests-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / "template.sqlite"
        schema.create(f"sqlite:///{path}")
        _made["sqlite"] = sa.make_url(f"sqlite:///{path}")
    return pathlib.Path(_made["sqlite"].database)


def database(kind: str) -> Database:
    """Return a ``Database`` on an empty database of ``kind``."""
    return Database(settings(kind), Journal())


def remove_rows(url: sa.URL, kept_tables: Collection[str]) -> None:
    """Delete all rows of another service's database on a server, but those of some tables.

    The database has the same tables each time.
    """
    engine, tables, are_filled = _prepare_to_remove(url, frozenset(kept_tables))
    with engine.begin() as connection:
        row = connection.execute(are_filled).one()
        # Most have no rows.
        for table, is_filled in zip(tables, row, strict=True):
            if is_filled:
                connection.execute(sa.delete(table))


@functools.cache
def _prepare_to_remove(
    url: sa.URL, kept_tables: Collection[str]
) -> tuple[sa.Engine, list[sa.TableClause], sa.Select[Any]]:
    """Return an engine that heeds no references, the tables, and what says which have rows."""
    engine = sa.create_engine(url, pool_size=1, max_overflow=0, pool_pre_ping=True)
    careless = ("SET session_replication_role = replica"
                if url.get_backend_name() == "postgresql" else "SET FOREIGN_KEY_CHECKS = 0")

    @sa.event.listens_for(engine, "connect")
    def heed_nothing(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(careless)
        connection.commit()

    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
    tables = [sa.table(name) for name in names if name not in kept_tables]
    return engine, tables, sa.select(*(
        sa.exists(sa.literal_column("1")).select_from(table).label(table.name)
        for table in tables))
