"""Nova's own databases, made by ``nova-manage`` of the installed nova.

``api(kind)`` and ``cell(kind, name)`` return the URL of a database with nova's schema and
no rows, as nova's configuration would spell it; ``kind`` is that of ``tests.databases``.
SQLite: a new file each time. PostgreSQL and MariaDB: a database of the process's own for
each name, emptied each time, dropped at exit. To work on it with nova's tables as they
are, reflect them (``reflected``): ours have only the columns that we use. ::

    url = nova_databases.api(self.kind)             # for [api_database] connection
    cell1 = nova_databases.cell(self.kind, "cell1")  # for a cell mapping

Making the first one of a kind takes about 3 seconds for each of the two schemas; other cells
are copies of it.
"""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from tests import databases

_RUN = "import sys; from nova.cmd import manage; sys.exit(manage.main())"
_SYNC = {"api": ("api_db", "sync"), "cell": ("db", "sync", "--local_cell")}
#: What ``nova-manage`` itself connects with, and how nova's documentation spells a URL.
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}
_VERSIONS = ("alembic_version", "shadow_alembic_version", "migrate_version")

_TEMPLATE = "template"
_template_lock = threading.Lock()

_made: dict[tuple[str, str], sa.URL] = {}


def api(kind: str) -> str:
    """Return the URL of an empty API database of nova."""
    return _empty(kind, "api", "api")


def cell(kind: str, name: str = "cell1") -> str:
    """Return the URL of an empty cell database of nova; each name has its own."""
    return _empty(kind, "cell", name)


def reflected(url: str, *names: str) -> tuple[sa.Engine, dict[str, sa.Table]]:
    """Return an engine and tables as nova made them; the caller disposes of the engine."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    metadata = sa.MetaData()
    metadata.reflect(engine, only=names)
    return engine, {name: metadata.tables[name] for name in names}


def restrict(
    url: str, privileges: Mapping[str, str], add_cleanup: Callable[..., object]
) -> str:
    """Return the URL of a server's database for a new user.

    :param privileges: {table: what the user may do with it}; nothing with the others.
    """
    made = sa.make_url(url)
    user = f"{made.database}_user"
    if made.get_backend_name() == "mysql":
        user = user[-32:]
        create, drop = f"CREATE USER {user} IDENTIFIED BY 'secret'", [f"DROP USER {user}"]
    else:
        create = f"CREATE ROLE {user} LOGIN PASSWORD 'secret'"
        drop = [f"DROP OWNED BY {user}", f"DROP ROLE {user}"]
    grants = [f"GRANT {granted} ON {table} TO {user}" for table, granted in privileges.items()]
    if made.get_backend_name() == "postgresql":
        grants += [f"GRANT USAGE ON SEQUENCE {table}_id_seq TO {user}"
                   for table, granted in privileges.items() if "INSERT" in granted]

    def execute(*statements: str) -> None:
        engine = sa.create_engine(made, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    execute(create, *grants)
    add_cleanup(execute, *drop)
    return made.set(username=user, password="secret").render_as_string(hide_password=False)


def run_code(url: str, code: str) -> None:
    """Run code with nova's own modules, for what only they can write.

    :param url: of an API database; the code finds the path of a nova.conf in ``sys.argv[1]``.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run("nova's own code", "-c", code, str(_write_conf(folder, url)))


def _empty(kind: str, schema: str, name: str) -> str:
    if kind == "sqlite":
        template = _made.get((kind, schema)) or _make_file(schema)
        copy = tempfile.mkdtemp(prefix=f"{name}-", dir=pathlib.Path(template.database).parent)
        return f"sqlite:///{shutil.copy(template.database, copy)}"
    url = _made.get((kind, name))
    if url is None:
        url = _make_database(kind, schema, name)
    else:
        databases.remove_rows(url, _VERSIONS)
    return url.render_as_string(hide_password=False)


def _make_file(schema: str) -> sa.URL:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-nova-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = sa.make_url(f"sqlite:///{folder}/{schema}.sqlite")
    _sync(schema, url)
    _made["sqlite", schema] = url
    return url


def _make_database(kind: str, schema: str, name: str) -> sa.URL:
    server = sa.make_url(os.environ[databases.VARIABLES[kind]]).set(drivername=_DRIVERS[kind])
    database = f"placement_test_{os.getpid()}_nova_{name}"
    template = ""
    if kind == "postgresql" and schema == "cell" and name != _TEMPLATE:
        # Nobody may be connected to it: tests use copies only.
        template = f" TEMPLATE {_make_template(kind).database}"
    databases.administer(
        server, f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}{template}")
    atexit.register(databases.administer, server, f"DROP DATABASE IF EXISTS {database}")
    url = server.set(database=database)
    if kind == "mysql":
        url = url.update_query_dict({"charset": "utf8"})
    if kind == "mysql" and schema == "cell" and name != _TEMPLATE:
        _copy_tables(_make_template(kind), url)
    elif not template:
        _sync(schema, url)
    _made[kind, name] = url
    return url


def _make_template(kind: str) -> sa.URL:
    """Return the cell database that nova made, of which the others are copies.

    Nova takes five seconds of a processor for it, a copy half a second at most.
    """
    # Several threads make the databases of a cloud.
    with _template_lock:
        return _made.get((kind, _TEMPLATE)) or _make_database(kind, "cell", _TEMPLATE)


def _copy_tables(source: sa.URL, copy: sa.URL) -> None:
    """Make nova's tables in an empty database of MariaDB, and say which version they have."""
    engine = sa.create_engine(copy, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET FOREIGN_KEY_CHECKS = 0")
        for name in sa.inspect(connection).get_table_names(source.database):
            statement = connection.exec_driver_sql(
                f"SHOW CREATE TABLE {source.database}.{name}").one()[1]
            connection.exec_driver_sql(statement.replace("%", "%%"))
            if name in _VERSIONS:
                connection.exec_driver_sql(
                    f"INSERT INTO {name} SELECT * FROM {source.database}.{name}")


def _sync(schema: str, url: sa.URL) -> None:
    """Have nova make its schema."""
    with tempfile.TemporaryDirectory() as folder:
        conf = _write_conf(folder, url.render_as_string(hide_password=False))
        _run(f"nova-manage {' '.join(_SYNC[schema])}", "-c", _RUN, "--config-file", str(conf),
             *_SYNC[schema])


def _write_conf(folder: str, url: str) -> pathlib.Path:
    conf = pathlib.Path(folder, "nova.conf")
    conf.write_text(
        f"[DEFAULT]\nstate_path = {folder}\ntransport_url = fake:///\n"
        f"[database]\nconnection = {url}\n[api_database]\nconnection = {url}\n")
    return conf


def _run(what: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env=os.environ | {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"},
        capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} failed:\n{done.stderr}")
