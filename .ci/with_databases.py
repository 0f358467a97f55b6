"""Run a command with PLACEMENT_TEST_POSTGRESQL and PLACEMENT_TEST_MYSQL set.

    with_databases.py [--own] -- make test

A variable that is set already stays. Else a server that answers on 127.0.0.1
is used (PostgreSQL: user ``postgres`` without password; MariaDB: ``root``
without password). Where none answers, or with ``--own``, a throw-away server
is started on a free port, its data in a temporary folder, and stopped at the
end; as root, Debian's packages are installed where its programs are missing.
Fails if there is neither a PostgreSQL nor a MariaDB.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import psycopg
import pymysql

SECONDS_TO_START = 60


class NoServerError(Exception):
    """There is no server of this kind to be had: why."""


def main() -> int:
    """Run the command; return its exit code, or 1 without any database server."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--own", action="store_true", help="start throw-away servers always")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    environment = dict(os.environ)
    # A terminated run stops its servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        for variable, kind in KINDS.items():
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
    initdb = _program("initdb", "postgresql", "/usr/lib/postgresql/*/bin")
    with _folder("postgres") as (folder, user):
        port = _free_port()
        _run(
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
        with _serving(command, user, lambda: _answers(_ask_postgresql, port)):
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def mariadb(own: bool) -> Iterator[str]:
    """Yield the URL of a MariaDB server's own database."""
    if not own and _answers(_ask_mariadb, 3306):
        yield "mysql://root@127.0.0.1/mysql"
        return
    server = _program("mariadbd", "mariadb-server", "/usr/sbin")
    install = _program("mariadb-install-db", "mariadb-server", "/usr/bin")
    with _folder("mysql") as (folder, user):
        port = _free_port()
        _run(
            [
                install,
                "--no-defaults",
                f"--datadir={folder}/data",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ],
            user,
        )
        command = [
            server, "--no-defaults", f"--datadir={folder}/data", f"--port={port}",
            f"--socket={folder}/socket", f"--pid-file={folder}/pid",
            "--bind-address=127.0.0.1", "--max-connections=400",
            "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin",
        ]  # fmt: skip
        with _serving(command, user, lambda: _answers(_ask_mariadb, port)):
            yield f"mysql://root@127.0.0.1:{port}/mysql"


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


def _program(name: str, package: str, folders: str) -> str:
    """Return a program's path; install its package when it is missing and we may."""
    path = _find(name, folders)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {package} for its {name}.", flush=True)
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for command in (["update"], ["install", "--yes", "--no-install-recommends", package]):
            subprocess.run(
                ["apt-get", "--quiet", *command], env=environment, stdout=subprocess.DEVNULL
            )
        path = _find(name, folders)
    if path is None:
        raise NoServerError(f"{name} is not installed (Debian: {package})")
    return path


def _find(name: str, folders: str) -> str | None:
    # The folder of Debian's package first: a link elsewhere may have no neighbours.
    found = sorted(glob.glob(f"{folders}/{name}"))
    return found[-1] if found else shutil.which(name)


@contextlib.contextmanager
def _folder(user: str) -> Iterator[tuple[str, str | None]]:
    """Yield a temporary folder and the user it belongs to: the servers refuse to be root."""
    with tempfile.TemporaryDirectory(prefix="placement-ci-", ignore_cleanup_errors=True) as path:
        if os.geteuid() != 0:
            yield path, None
            return
        try:
            identity = pwd.getpwnam(user)
        except KeyError:
            user, identity = "nobody", pwd.getpwnam("nobody")
        os.chown(path, identity.pw_uid, identity.pw_gid)
        yield path, user


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run(command: list[str], user: str | None) -> None:
    done = subprocess.run(
        command,
        user=user,
        group=_group(user),
        extra_groups=_none(user),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise NoServerError(f"{command[0]} failed: {done.stdout[-1000:]}")


@contextlib.contextmanager
def _serving(command: list[str], user: str | None, answers: Callable[[], bool]) -> Iterator[None]:
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            user=user,
            group=_group(user),
            extra_groups=_none(user),
            cwd="/",
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + SECONDS_TO_START
            while not answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise NoServerError(f"{command[0]} does not serve: {log.read()[-1000:]}")
                time.sleep(0.2)
            yield
        finally:
            # SIGINT is PostgreSQL's fast shutdown; MariaDB stops at SIGTERM.
            process.send_signal(signal.SIGINT if "postgres" in command[0] else signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _none(user: str | None) -> list[str] | None:
    return None if user is None else []


if __name__ == "__main__":
    sys.exit(main())
