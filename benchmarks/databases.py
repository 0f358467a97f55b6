"""Databases for a run: made, copied and dropped on one server of each kind.

A dataset is loaded once into a database that nobody serves afterwards; what is
measured runs on a copy of it, so that every measurement begins from the same
rows, and a second run need not load it again.
"""

from __future__ import annotations

import abc
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import sqlalchemy as sa

from benchmarks import processes

#: Where the servers are, as in the tests.
VARIABLES = {"postgresql": "PLACEMENT_TEST_POSTGRESQL", "mysql": "PLACEMENT_TEST_MYSQL"}

#: What upstream's URL names: its requirements have these drivers.
_UPSTREAM_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}


#: What is asked of a number: the same on each kind of database, or of each; None: nothing.
Bound: TypeAlias = float | Mapping[str, float] | None


def find_bound(bound: Bound, kind: str) -> float | None:
    """Return what is asked on a kind of database."""
    return bound.get(kind) if isinstance(bound, Mapping) else bound


class Server(abc.ABC):
    """One kind of database and the server (SQLite: folder) that holds ours."""

    kind: str

    @abc.abstractmethod
    def make(self, name: str) -> None:
        """Make an empty database, in place of one of that name."""

    @abc.abstractmethod
    def copy(self, source: str, name: str) -> None:
        """Make a database like ``source``, which nobody is connected to."""

    @abc.abstractmethod
    def drop(self, name: str) -> None:
        """Drop a database if it is there."""

    @abc.abstractmethod
    def exists(self, name: str) -> bool:
        """Say whether there is a database of that name."""

    @abc.abstractmethod
    def settle(self, name: str) -> None:
        """Bring the planner's statistics up to date, and write out what is dirty."""

    @abc.abstractmethod
    def url(self, name: str) -> sa.URL:
        """Return the URL that we connect with."""

    @abc.abstractmethod
    def version(self) -> str:
        """Return the server's version."""

    def upstream_url(self, name: str) -> sa.URL:
        """Return the URL that upstream connects with."""
        return self.url(name).set(drivername=_UPSTREAM_DRIVERS[self.kind])

    def pid(self) -> int | None:
        """Return the process whose tree does the work; None where there is none to see."""
        return None

    def connect(self, name: str) -> sa.Connection:
        """Open a connection that commits each statement."""
        engine = sa.create_engine(
            self.url(name), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        return engine.connect()


class _Remote(Server):
    def __init__(self, url: str, driver: str) -> None:
        self._server = sa.make_url(url).set(drivername=driver)

    def url(self, name: str) -> sa.URL:
        return self._server.set(database=name)

    def make(self, name: str) -> None:
        self.drop(name)
        self._administer(f"CREATE DATABASE {name}")

    def _administer(self, *statements: str) -> None:
        with self.connect(self._server.database) as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def _ask(self, question: str) -> object:
        with self.connect(self._server.database) as connection:
            return connection.exec_driver_sql(question).scalar()

    def _is_local(self) -> bool:
        return self._server.host in (None, "localhost", "127.0.0.1", "::1")


class PostgreSQL(_Remote):
    """A PostgreSQL server."""

    kind = "postgresql"

    def __init__(self, url: str) -> None:
        super().__init__(url, "postgresql+psycopg")

    def copy(self, source: str, name: str) -> None:
        self.drop(name)
        self._administer(f"CREATE DATABASE {name} TEMPLATE {source}", "CHECKPOINT")

    def drop(self, name: str) -> None:
        self._administer(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def exists(self, name: str) -> bool:
        return bool(self._ask(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"))

    def settle(self, name: str) -> None:
        with self.connect(name) as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")
            connection.exec_driver_sql("CHECKPOINT")

    def version(self) -> str:
        return "PostgreSQL " + str(self._ask("SHOW server_version")).split()[0]

    def pid(self) -> int | None:
        if not self._is_local():
            return None
        with self.connect(self._server.database) as connection:
            backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            return processes.parent(int(backend))


class MySQL(_Remote):
    """A MariaDB or MySQL server."""

    kind = "mysql"

    def __init__(self, url: str) -> None:
        super().__init__(url, "mysql+pymysql")

    def copy(self, source: str, name: str) -> None:
        self.make(name)
        with self.connect(name) as connection:
            run = connection.exec_driver_sql
            run("SET SESSION foreign_key_checks = 0")
            run("SET SESSION unique_checks = 0")
            # 0 is the id of a resource class, not a wish for the next number.
            run("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
            for table in self._tables(connection, source):
                run(str(run(f"SHOW CREATE TABLE {source}.{table}").one()[1]))
                run(f"INSERT INTO {table} SELECT * FROM {source}.{table}")
            for row in run(f"SHOW TRIGGERS FROM {source}").mappings():
                run(f"CREATE TRIGGER {row['Trigger']} {row['Timing']} {row['Event']} "
                    f"ON {row['Table']} FOR EACH ROW {row['Statement']}")
        self.settle(name)

    def drop(self, name: str) -> None:
        self._administer(f"DROP DATABASE IF EXISTS {name}")

    def exists(self, name: str) -> bool:
        return bool(self._ask(
            f"SELECT 1 FROM information_schema.schemata WHERE schema_name = '{name}'"))

    def settle(self, name: str) -> None:
        with self.connect(name) as connection:
            for table in self._tables(connection, name):
                connection.exec_driver_sql(f"ANALYZE TABLE {table}")

    def version(self) -> str:
        version = str(self._ask("SELECT VERSION()"))
        return ("MariaDB " if "MariaDB" in version else "MySQL ") + version.split("-")[0]

    def pid(self) -> int | None:
        return processes.named("mariadbd", "mysqld") if self._is_local() else None

    @staticmethod
    def _tables(connection: sa.Connection, name: str) -> list[str]:
        """Return the tables of a database, quoted: Keystone calls one ``limit``."""
        found = connection.exec_driver_sql(
            f"SHOW FULL TABLES FROM {name} WHERE Table_type = 'BASE TABLE'")
        return [f"`{row[0]}`" for row in found]


class SQLite(Server):
    """SQLite: a file for each database."""

    kind = "sqlite"

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def url(self, name: str) -> sa.URL:
        return sa.URL.create("sqlite", database=str(self._folder / f"{name}.sqlite"))

    def upstream_url(self, name: str) -> sa.URL:
        return self.url(name)

    def make(self, name: str) -> None:
        self.drop(name)

    def copy(self, source: str, name: str) -> None:
        self.drop(name)
        with self.connect(source) as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(str(self.url(source).database), str(self.url(name).database))

    def drop(self, name: str) -> None:
        for path in self._files(name):
            path.unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return pathlib.Path(str(self.url(name).database)).exists()

    def settle(self, name: str) -> None:
        with self.connect(name) as connection:
            connection.exec_driver_sql("ANALYZE")

    def version(self) -> str:
        with sa.create_engine("sqlite://").connect() as connection:
            return f"SQLite {connection.exec_driver_sql('SELECT sqlite_version()').scalar()}"

    def _files(self, name: str) -> Iterator[pathlib.Path]:
        path = str(self.url(name).database)
        for suffix in ("", "-wal", "-shm", "-journal"):
            yield pathlib.Path(path + suffix)


def server(kind: str, folder: pathlib.Path) -> Server | None:
    """Return the server of ``kind``; None when no variable names one.

    :param folder: where SQLite databases are put.
    """
    if kind == "sqlite":
        return SQLite(folder)
    url = os.environ.get(VARIABLES[kind])
    if not url:
        return None
    return PostgreSQL(url) if kind == "postgresql" else MySQL(url)


def is_named(kind: str) -> bool:
    """Say whether the environment names a server of this kind."""
    return bool(os.environ.get(VARIABLES[kind]))
