"""What a database's complaint means for the caller.

Four verdicts: the transaction lost a race or its connection and may be tried
again (``TransactionLost``); the database cannot do it now (``Unavailable``);
the request holds something that no row can (``Invalid``); or it is a defect of
ours, and stays what it is. Duplicate keys and missing references stay too: the
function that ran the statement knows what they mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors

#: Deadlock, serialisation failure, certification failure (Galera, group
#: replication), a snapshot that another writer made stale.
_RACES: dict[str, set[Any]] = {
    "postgresql": {"40001", "40P01"},
    # 1467: a deadlock over a table's counter.
    "mysql": {1020, 1213, 1467, 3101},
    "sqlite": {517},
}
#: The connection or the server is gone; nothing was committed.
_GONE: dict[str, set[Any]] = {
    "postgresql": {"25P03", "57P01", "57P02", "57P03"},
    "mysql": {1047, 1053, 1158, 1159, 1160, 1161, 1927, 2002, 2003, 2006, 2013, 2055, 4031},
    "sqlite": set(),
}
#: Waited long enough for a lock or a statement, or there is no room or no
#: permission to write: a repetition would only add to the load.
_BUSY = {
    "postgresql": {"25006", "55P03", "57014", "53000", "53100", "53200", "53300", "53400"},
    "mysql": {1021, 1040, 1114, 1203, 1205, 1290, 1317, 1836, 1969, 3024},
    "sqlite": {5, 6, 8, 10, 13, 14},
}
#: A value that a column or the protocol cannot hold.
_DATA: dict[str, Any] = {
    "postgresql": "22",
    # 1267: compared with a column whose character set does not have it.
    "mysql": {1264, 1265, 1267, 1292, 1366, 1406, 3988},
    "sqlite": {18, 20},
}


class TransactionLost(errors.Unavailable):
    """The transaction certainly did not happen; it may be tried again."""

    def __init__(
        self, message: str = "The database could not complete the change; please try again."
    ) -> None:
        super().__init__(message)


def verdict(error: Exception) -> Exception:
    """Return what ``error`` means; itself where it has no such meaning."""
    if isinstance(error, errors.Error):
        return error
    if isinstance(error, (db_exception.DBDuplicateEntry, db_exception.DBReferenceError)):
        return error
    if isinstance(error, sa.exc.TimeoutError):
        return errors.Unavailable("Every connection to the database is in use.")
    database, code = _code(error)
    if _is_gone(error, database, code):
        return TransactionLost("The database does not answer; please try again.")
    if _in(_BUSY, database, code):
        return errors.Unavailable("The database is too busy to complete this now.")
    if isinstance(error, db_exception.DBDeadlock) or _in(_RACES, database, code):
        return TransactionLost()
    if _is_about_data(error, database, code):
        return errors.Invalid("The request holds a value that the database cannot keep.")
    return error


@contextlib.contextmanager
def judged() -> Iterator[None]:
    """Raise the verdict on what the database complains about."""
    try:
        yield
    except (db_exception.DBError, db_exception.DBInvalidUnicodeParameter,
            sa.exc.SQLAlchemyError, UnicodeEncodeError) as error:
        meaning = verdict(error)
        if meaning is error:
            raise
        raise meaning from error


def _is_gone(error: Exception, database: str | None, code: str | int | None) -> bool:
    if isinstance(error, db_exception.DBConnectionError) or _in(_GONE, database, code):
        return True
    if database != "postgresql":
        return False
    # Without a state it is the driver that complains: it cannot reach the server.
    return (code is None and isinstance(error, sa.exc.OperationalError)) or (
        isinstance(code, str) and code.startswith("08"))


def is_missing_value(error: Exception) -> bool:
    """Say whether MySQL complains that a column got no value."""
    return _code(error) == ("mysql", 1048)


def _is_about_data(error: Exception, database: str | None, code: str | int | None) -> bool:
    if database == "postgresql" and isinstance(code, str):
        return code.startswith("22")
    return (
        isinstance(error, (db_exception.DBDataError, db_exception.DBInvalidUnicodeParameter,
                           sa.exc.DataError, UnicodeEncodeError))
        or isinstance(getattr(error, "inner_exception", None), (OverflowError, sa.exc.DataError))
        or _in(_DATA, database, code)
    )


def _in(codes: dict, database: str | None, code: str | int | None) -> bool:
    return database is not None and code in codes[database]


def _code(error: Exception) -> tuple[str | None, str | int | None]:
    """Return which database complains, and the code of its complaint."""
    inner = getattr(error, "inner_exception", None) or error
    original = getattr(inner, "orig", None) or inner
    if hasattr(original, "sqlite_errorcode"):
        code = original.sqlite_errorcode
        # The extended code says more only where we know it.
        return "sqlite", code if code in _RACES["sqlite"] else code & 0xFF
    if original.args and isinstance(original.args[0], int):
        return "mysql", original.args[0]
    if hasattr(original, "sqlstate"):
        return "postgresql", original.sqlstate
    return None, None
