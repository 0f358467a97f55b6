"""Keys that are there already, and references to what is not, by the code of a server's error.

oslo.db recognises these errors by their texts. Servers send them in the language of the machine
on which they were set up (``lc_messages``), and MySQL cuts them at 256 characters. SQLite knows
English only, and is left to oslo.db.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.db import failures
from placement_core.db.server_errors import Meaning

#: The last quoted word of MySQL's text: the key, in each of its languages.
_LAST_QUOTED = re.compile(r"'([^']*)'[^']*\Z")


def watch(engine: sa.Engine) -> None:
    """Raise ``DBDuplicateEntry``, ``DBReferenceError`` (without its names) for such errors.

    To be called before other listeners give the error another form.
    """

    @sa.event.listens_for(engine, "handle_error")
    def recognise(context: sa.engine.ExceptionContext) -> None:
        error = context.original_exception
        match failures.find_code_meaning(error):
            case Meaning.DUPLICATE:
                raise db_exception.DBDuplicateEntry(
                    _list_columns(error), context.sqlalchemy_exception) from error
            case Meaning.REFERENCE:
                raise db_exception.DBReferenceError(
                    None, None, None, None, context.sqlalchemy_exception) from error


def _list_columns(error: BaseException) -> list[str]:
    """Return the columns of the key that is there: ``uniq_<table>0<column>0<column>``.

    A key with another name counts as a column of that name.
    """
    name = _find_key(error)
    return name.split("0")[1:] or [name]


def _find_key(error: Any) -> str:
    """Return the name of the key, as far as the server says it."""
    if hasattr(error, "diag"):
        name: str | None = error.diag.constraint_name
        return name or ""
    match = _LAST_QUOTED.search(str(error.args[-1]))
    # MySQL 8 names the table, too.
    return match.group(1).rpartition(".")[2] if match else ""
