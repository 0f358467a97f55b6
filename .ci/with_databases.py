"""Run a command with PLACEMENT_TEST_POSTGRESQL and PLACEMENT_TEST_MYSQL set.

    with_databases.py [--own] [--mysql] -- make test

A variable that is set already stays. Else a server that answers on 127.0.0.1
is used (PostgreSQL: user ``postgres`` without password; MariaDB: ``root``
without password). Where none answers, or with ``--own``, a throw-away server
is started on a free port, its data in a temporary folder, and stopped at the
end; as root, Debian's packages are installed where its programs are missing.
With ``--mysql``, a throw-away
server of MySQL is in the place of MariaDB. ``PLACEMENT_TEST_PROGRAMS`` names
a folder whose programs come first (``tests.suites``).
Fails if there is neither a PostgreSQL nor a MariaDB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests import server_programs
from tests.server_programs import NoServerError


def main() -> int:
    """Run the command; return its exit code, or 1 without any database server."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--own", action="store_true", help="start throw-away servers always")
    parser.add_argument("--mysql", action="store_true", help="a throw-away MySQL, not MariaDB")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    environment = dict(os.environ)
    # A terminated run stops its servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        kinds = {**KINDS, "PLACEMENT_TEST_MYSQL": mysql} if arguments.mysql else KINDS
        for variable, kind in kinds.items():
            if environment.get(variable):
                continue
            try:
                environment[variable] = stack.enter_context(kind(arguments.own))
            except NoServerError as error:
                print(f"WARNING: no {variable.removeprefix('PLACEMENT_TEST_')}: {error}")
        if not any(environment.get(variable) for variable in KINDS):
            print("Neither PostgreSQL nor MariaDB can be reached.")
            return 1
        return subprocess.run(arguments.command, env=environment).returncode


@contextlib.contextmanager
def postgresql(own: bool) -> Iterator[str]:
    """Yield the URL of a PostgreSQL server's own database."""
    if not own and _answers(_ask_postgresql, 5432):
        yield "postgresql://postgres@127.0.0.1/postgres"
        return
    initdb = server_programs.find("initdb", "postgresql", "/usr/lib/postgresql/*/bin")
    with server_programs.folder("postgres") as (folder, user):
        port = server_programs.find_free_port()
        server_programs.run(
            [
                initdb,
                "--pgdata",
                f"{folder}/data",
                "--username",
                "postgres",
                "--auth",
                "trust",
                "--encoding",
                "UTF8",
                "--no-locale",
                "--no-sync",
            ],
            user,
        )
        command = [
            str(pathlib.Path(initdb).with_name("postgres")), "-D", f"{folder}/data",
            "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1",
            "-c", "max_connections=400", "-c", "fsync=off",
        ]  # fmt: skip
        with _serving(command, folder, user, lambda: _answers(_ask_postgresql, port)):
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def mariadb(own: bool) -> Iterator[str]:
    """Yield the URL of a MariaDB server's own database."""
    if not own and _answers(_ask_mariadb, 3306):
        yield "mysql://root@127.0.0.1/mysql"
        return
    server = server_programs.find("mariadbd", "mariadb-server", "/usr/sbin")
    install = server_programs.find("mariadb-install-db", "mariadb-server", "/usr/bin")
    with server_programs.folder("mysql") as (folder, user):
        port = server_programs.find_free_port()
        basedir = _basedir(server)
        server_programs.run(
            [
                install,
                "--no-defaults",
                basedir,
                f"--datadir={folder}/data",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ],
            user,
        )
        # Each table that is made would be waited for otherwise, several times.
        careless = ["--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--sync-frm=0"]
        command = [server, "--no-defaults", basedir, *_serve_mysql(folder, port), *careless]
        with _serving(command, folder, user, lambda: _answers(_ask_mariadb, port)):
            yield f"mysql://root@127.0.0.1:{port}/mysql"


@contextlib.contextmanager
def mysql(_own: bool) -> Iterator[str]:
    """Yield the URL of a throw-away MySQL server's own database."""
    server = server_programs.find("mysqld", "mysql-server-core", "/usr/sbin")
    with server_programs.folder("mysql") as (folder, user):
        port = server_programs.find_free_port()
        options = ["--no-defaults", _basedir(server), "--secure-file-priv=NULL"]
        server_programs.run(
            [server, *options, "--initialize-insecure", f"--datadir={folder}/data"], user)
        command = [server, *options, "--mysqlx=OFF", *_serve_mysql(folder, port)]
        with _serving(command, folder, user, lambda: _answers(_ask_mariadb, port)):
            yield f"mysql://root@127.0.0.1:{port}/mysql"


def _basedir(server: str) -> str:
    """Return the option that says where a server's messages are: beside it."""
    return f"--basedir={pathlib.Path(server).parents[1]}"


def _serve_mysql(folder: str, port: int) -> list[str]:
    return [
        f"--datadir={folder}/data", f"--port={port}", f"--socket={folder}/socket",
        f"--pid-file={folder}/pid", "--bind-address=127.0.0.1", "--max-connections=400",
        "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin",
    ]  # fmt: skip


KINDS = {"PLACEMENT_TEST_POSTGRESQL": postgresql, "PLACEMENT_TEST_MYSQL": mariadb}


def _ask_postgresql(port: int) -> None:
    psycopg.connect(host="127.0.0.1", port=port, user="postgres", connect_timeout=3).close()


def _ask_mariadb(port: int) -> None:
    pymysql.connect(host="127.0.0.1", port=port, user="root", connect_timeout=3).close()


def _answers(ask: Callable[[int], None], port: int) -> bool:
    try:
        ask(port)
    except (psycopg.Error, pymysql.Error, OSError):
        return False
    return True


@contextlib.contextmanager
def _serving(
    command: list[str], folder: str, user: str | None, answers: Callable[[], bool]
) -> Iterator[None]:
    # SIGINT is PostgreSQL's fast shutdown; MariaDB stops at SIGTERM.
    end = signal.SIGINT if "postgres" in command[0] else signal.SIGTERM
    server = server_programs.Program(
        command, user, answers, pathlib.Path(folder, "log"), end=end)
    try:
        server.start()
        yield
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
