"""Who may read the file of an SQLite database: passwords of cells' databases are in it.

SQLite gives the files that it makes beside a database (``-wal``, ``-shm``) the mode of
the database's own.
"""

from __future__ import annotations

import contextlib
import os
import stat

import sqlalchemy as sa

#: What may stand beside a database, and holds what it holds.
_BESIDE = ("", "-wal", "-shm", "-journal")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create_private(path: str) -> None:
    """Make an empty file that its owner alone can read, unless there is one already.

    :raises OSError: it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def find_obstacle(connection: str) -> str | None:
    """Return why a file of a database cannot be opened, where that can be seen; else None.

    :param connection: the URL of a database of any kind.
    """
    url = sa.make_url(connection)
    path = url.database or ""
    if url.get_backend_name() != "sqlite" or not path or path.startswith("file:"):
        return None
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        return f"there is no directory {folder}"
    if os.path.isdir(path):
        return f"{path} is a directory"
    if not os.access(path if os.path.exists(path) else folder, os.R_OK | os.W_OK):
        return f"this user may not read and write {path}"
    return None


def find_exposed(connection: str) -> list[str]:
    """Return the files of a database that others than their owner can use.

    :param connection: the URL of a database of any kind; others than SQLite's have no
        files here.
    """
    url = sa.make_url(connection)
    path = url.database or ""
    if url.get_backend_name() != "sqlite" or path.startswith("file:"):
        return []
    return [f"{path}{suffix}" for suffix in _BESIDE if _is_exposed(f"{path}{suffix}")]


def _is_exposed(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & _OTHERS)
    except OSError:
        return False
