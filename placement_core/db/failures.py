"""What a database's complaint means for the caller.

Every error of a database is translated here, whether SQLAlchemy, oslo.db or the driver
itself raised it. It means one of four things: the transaction certainly did not happen and
may be tried again (``TransactionConflict``); the same, because the connection is gone
(``ConnectionLost``: of a COMMIT nobody knows); the database cannot do it now
(``Unavailable``); or the request holds something that no row can (``Invalid``). Whatever
else there is, is a defect of ours, and stays what it is. Duplicate keys and missing
references stay too: the function that ran the statement knows what they mean.
``server_errors`` has the codes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors, metrics
from placement_core.db.server_errors import Meaning, meaning


class TransactionConflict(errors.Unavailable):
    """The transaction certainly did not happen; it may be tried again.

    :cvar cause: for the metrics.
    """

    retry_after_seconds = 1
    cause: metrics.RetryCause = "changed_rows"

    def __init__(
        self, message: str = "The database could not complete the change; please try again."
    ) -> None:
        super().__init__(message)


class RolledBack(TransactionConflict):
    """The database rolled the transaction back because of another one."""

    cause = "deadlock"


class ConnectionLost(TransactionConflict):
    """The connection is gone, and a transaction on it unless it was being committed."""

    cause = "connection"

    def __init__(
        self, message: str = "The database does not answer; please try again."
    ) -> None:
        super().__init__(message)


class ReadOnly(errors.Unavailable):
    """The server that this connection leads to takes no writes."""


#: The classes of errors of the drivers in use (PEP 249).
_driver_errors: set[type[Exception]] = set()


def register_driver_errors(error: type[Exception]) -> None:
    """Have a driver's own errors translated, whoever lets them pass."""
    _driver_errors.add(error)


def translate(error: Exception) -> Exception:
    """Return what ``error`` means; itself where it has no such meaning."""
    if isinstance(error, errors.Error) or not is_of_database(error):
        return error
    if isinstance(error, (db_exception.DBDuplicateEntry, db_exception.DBReferenceError)):
        unchanged: Exception = error  # oslo.db publishes no types.
        return unchanged
    if isinstance(error, sa.exc.TimeoutError):
        return errors.Unavailable("Every connection to the database is in use.")
    match _find_meaning(error):
        case Meaning.RETRY:
            return RolledBack()
        case Meaning.LOST:
            return ConnectionLost()
        case Meaning.REFUSED:
            return errors.Unavailable("The database is too busy to complete this now.")
        case Meaning.READ_ONLY:
            return ReadOnly("The database does not take changes now.")
        case Meaning.DATA:
            return errors.Invalid("The request holds a value that the database cannot keep.")
        case Meaning.DUPLICATE | Meaning.REFERENCE | None:
            return error


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Raise what an error of the database means in its place."""
    try:
        yield
    except Exception as error:
        translated = translate(error)
        if translated is error:
            raise
        raise translated from error


def is_of_server(error: Exception) -> bool:
    """Say whether a database, or the way to it, is in trouble: it is not the request's fault."""
    if isinstance(error, errors.Error):
        return isinstance(error, (ConnectionLost, ReadOnly))
    return (is_of_database(error) and not isinstance(error, UnicodeEncodeError)
            and _find_meaning(error) is not Meaning.DATA)


def is_not_ready(error: Exception) -> bool:
    """Say whether a node has left its Galera cluster: it takes connections, and no statements."""
    return _get_code(error) == ("mysql", 1047)


def is_deadlock(error: Exception) -> bool:
    """Say whether a server undid a transaction because it and another waited for each other."""
    return _get_code(error) in (("postgresql", "40P01"), ("mysql", 1213))


def is_lock_timeout(error: Exception) -> bool:
    """Say whether a database gave up because others hold a lock for too long."""
    dialect, code = _get_code(error)
    if dialect == "sqlite" and isinstance(code, int):
        return code & 0xFF == sqlite3.SQLITE_BUSY
    return (dialect, code) in (("postgresql", "55P03"), ("mysql", 1205))


def is_unreadable_table(error: Exception) -> bool:
    """Say whether a table is not there, or the user may not read it."""
    # SQLite has no code for it, and no users.
    return isinstance(error, db_exception.DBNonExistentTable) or _get_code(error) in (
        ("postgresql", "42P01"), ("postgresql", "42501"), ("mysql", 1146), ("mysql", 1142))


def is_missing_privilege(error: Exception) -> bool:
    """Say whether MySQL does not let the user make a trigger."""
    # Access to the database, the TRIGGER privilege, SUPER, and SUPER with a binary log.
    dialect, code = _get_code(error)
    return dialect == "mysql" and code in (1044, 1142, 1227, 1419)


def is_missing_value(error: Exception) -> bool:
    """Say whether MySQL complains that a column got no value."""
    return _get_code(error) == ("mysql", 1048)


def describe_error(error: BaseException) -> str:
    """Return what a database said, in one line, for the log."""
    cause = error.__cause__ or error
    original = getattr(getattr(cause, "inner_exception", None) or cause, "orig", None) or cause
    lines = str(original).strip().splitlines()
    return " ".join(line.strip() for line in lines[:2]) or type(original).__name__


def is_of_database(error: Exception) -> bool:
    """Say whether a database, its driver or SQLAlchemy raised an error."""
    return isinstance(error, (
        db_exception.DBError, db_exception.DBInvalidUnicodeParameter, sa.exc.SQLAlchemyError,
        UnicodeEncodeError, *_driver_errors))


def find_code_meaning(error: BaseException) -> Meaning | None:
    """Return what the code of an error means; None: it has none, or one that is not listed."""
    dialect, code = _get_code(error)
    return None if dialect is None or code is None else meaning(dialect, code)


def _find_meaning(error: Exception) -> Meaning | None:
    meant = find_code_meaning(error)
    if meant is not None:
        return meant
    dialect, code = _get_code(error)
    if isinstance(error, (db_exception.DBConnectionError, sa.exc.PendingRollbackError)) or (
            code is None and _is_drivers_own(error)):
        return Meaning.LOST
    if isinstance(error, db_exception.DBDeadlock):
        return Meaning.RETRY
    if (dialect != "postgresql" or code is None) and _is_about_data(error):
        return Meaning.DATA
    return None


def _is_drivers_own(error: Exception) -> bool:
    """Say whether a driver complains about its connection, which no server gave a code."""
    original = _unwrap(error)
    kinds = {kind.__name__ for kind in type(original).__mro__}
    return (type(original).__module__.partition(".")[0] != "sqlite3"
            and isinstance(original, tuple(_driver_errors))
            and bool(kinds & {"OperationalError", "InterfaceError"}))


def _is_about_data(error: Exception) -> bool:
    return isinstance(error, (
        db_exception.DBDataError, db_exception.DBInvalidUnicodeParameter, sa.exc.DataError,
        UnicodeEncodeError)
    ) or isinstance(
        getattr(error, "inner_exception", None), (OverflowError, sa.exc.DataError))


def _unwrap(error: BaseException) -> BaseException:
    inner = getattr(error, "inner_exception", None) or error
    return getattr(inner, "orig", None) or inner


def _get_code(error: BaseException) -> tuple[str | None, str | int | None]:
    """Return which database complains, and the code of its complaint."""
    original = _unwrap(error)
    if hasattr(original, "sqlite_errorcode"):
        return "sqlite", original.sqlite_errorcode
    # PyMySQL's errors have a state, too, which says less than their number.
    if original.args and isinstance(original.args[0], int):
        return "mysql", original.args[0]
    for name in ("sqlstate", "pgcode"):  # psycopg's, psycopg2's
        if hasattr(original, name):
            return "postgresql", getattr(original, name)
    return None, None
