"""Which revisions of the schema there are, and which one a database has.

Every process asks this at its start, so nothing here needs Alembic, whose import would be a tenth
of that.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

#: The version table of this schema; upstream's is ``alembic_version``, in the same database.
VERSION_TABLE = "placement_core_version"
#: Upstream Placement's own version table.
UPSTREAM_VERSION_TABLE = "alembic_version"
#: Called with (a description of the step, the amount that is done, the total amount).
Report = Callable[[str, int, int], None]

#: How many there are in ``versions``.
_COUNT = 25
#: Their names, the oldest first.
_NAMES = [f"{number + 1:04}" for number in range(_COUNT)]


def no_report(_what: str, _done: int, _total: int) -> None:
    """Ignore the progress."""


def head() -> str:
    """Return the newest revision of this version of the code."""
    return _NAMES[-1]


def is_known(revision: str) -> bool:
    """Return whether this version of the code has ``revision``."""
    return revision in _NAMES


def current(connection: sa.Connection, table: str = VERSION_TABLE) -> str | None:
    """Return the revision of a database; None: it has no version table, or no row in it."""
    if not sa.inspect(connection).has_table(table):
        return None
    return connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(table)))
