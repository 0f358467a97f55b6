"""Databases without any table, for tests that make the schema themselves."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import sqlalchemy as sa

from tests import databases

_numbers = itertools.count(1)


def database(kind: str, add_cleanup: Callable[..., object]) -> str:
    """Make an empty database of ``kind``; return its URL with password.

    :param add_cleanup: a test's ``addCleanup``.
    """
    if kind == "sqlite":
        folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-bare-"))
        add_cleanup(shutil.rmtree, folder, ignore_errors=True)
        return f"sqlite:///{folder}/placement.sqlite"
    server = databases.server_database(kind)
    name = f"placement_bare_{os.getpid()}_{next(_numbers)}"
    databases.administer(server, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    add_cleanup(databases.administer, server, f"DROP DATABASE IF EXISTS {name}")
    return sa.URL.render_as_string(server.set(database=name), hide_password=False)
