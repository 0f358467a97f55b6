"""Sequences that are behind their table: the next id that one gives is taken already.

Logical replication and a restore of single tables copy rows, and leave PostgreSQL's sequences
where they were. The server then refuses an INSERT for its primary key, which callers would
take for a row that another writer inserted just now. So that refusal has an error of its own,
whoever ran the statement. The other databases never give an id below one that is there.
"""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa

from placement_core import errors
from placement_core.db import failures
from placement_core.db.metadata import metadata
from placement_core.db.server_errors import Meaning

LOG = logging.getLogger(__name__)


class SequenceBehind(errors.Unavailable):
    """No row can be inserted into a table until its sequence is set.

    :ivar table: its name.
    """

    def __init__(self, table: str, *, own: bool) -> None:
        self.table = table
        advice = ("run `placement-core db sync`" if own
                  else f"set it to the largest number in {table}")
        super().__init__(f"The sequence of table {table} is behind it, so that no row can be "
                         f"added: {advice}.")


def watch(engine: sa.Engine, *, own: bool) -> None:
    """Raise ``SequenceBehind``, and log it, where a statement failed for a sequence.

    To be called before other listeners give the error another form.

    :param own: the schema is ours, so ``db sync`` sets sequences.
    """

    @sa.event.listens_for(engine, "handle_error")
    def recognise(context: sa.engine.ExceptionContext) -> None:
        table = _find_table(context)
        if table is not None:
            error = SequenceBehind(table, own=own)
            LOG.error("%s", error)
            raise error from context.original_exception


def _find_table(context: sa.engine.ExceptionContext) -> str | None:
    """Return the table whose sequence gave an id that is taken; None: it is something else."""
    error: Any = context.original_exception
    if failures.find_code_meaning(error) is not Meaning.DUPLICATE or not hasattr(error, "diag"):
        return None  # only PostgreSQL's errors have a diagnosis, and only it has sequences
    name: str | None = error.diag.table_name
    table = metadata.tables.get(name or "")
    if table is None or table.autoincrement_column is None:
        return None
    return name if error.diag.constraint_name == f"{name}_pkey" else None
