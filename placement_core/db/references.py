"""Rows that refer to one that is not there, by the number of MySQL's error.

oslo.db recognises these errors by their text, which MySQL cuts at 256 characters: with long
names of database and tables, the end that it looks for is missing. MariaDB sends it whole.
"""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

#: ER_ROW_IS_REFERENCED_2, ER_NO_REFERENCED_ROW_2.
_NUMBERS = (1451, 1452)


def watch(engine: sa.Engine) -> None:
    """Raise ``DBReferenceError``, without its names, where a foreign key was violated on MySQL.

    To be called before other listeners give the error another form.
    """

    @sa.event.listens_for(engine, "handle_error")
    def recognise(context: sa.engine.ExceptionContext) -> None:
        error = context.original_exception
        if error.args and error.args[0] in _NUMBERS:
            raise db_exception.DBReferenceError(
                None, None, None, None, context.sqlalchemy_exception) from error
