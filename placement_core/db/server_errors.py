"""The errors by which databases say that a transaction cannot be, and what each means.

This is the only list of them. ``failures`` reads it; nobody else looks at an error code.
Sources: PostgreSQL appendix A; the error references of MySQL and MariaDB; Galera's
documentation of certification; the result codes of SQLite.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Meaning(enum.Enum):
    """What follows from an error."""

    #: The server has rolled the transaction back, also where it was about to commit it.
    #: The transaction is repeated.
    RETRY = enum.auto()
    #: The connection or the server is gone, or nobody knows what became of a COMMIT. The
    #: connection is closed. A COMMIT is looked up before anything else; before COMMIT
    #: nothing has happened, and the transaction is repeated.
    LOST = enum.auto()
    #: The server lives and cannot do it now. Repeating it would add to its load: the
    #: client is told to come back. A COMMIT is looked up.
    REFUSED = enum.auto()
    #: The same, from a server that takes no writes. The connection is closed: after a
    #: failover a new one leads to the server that does.
    READ_ONLY = enum.auto()
    #: The request holds a value that no row can hold.
    DATA = enum.auto()
    #: Another row has this key already. Only the function that ran the statement knows what
    #: that means.
    DUPLICATE = enum.auto()
    #: The row refers to one that is not there, or others refer to it. The same.
    REFERENCE = enum.auto()


class ServerError(NamedTuple):
    """An error of a server or of its driver.

    :ivar code: SQLSTATE, or a class of them (two characters); MySQL's error number;
        SQLite's result code.
    :ivar seen_in: the test in ``tests.functional.db.test_server_errors`` in which a server
        comes to send it by itself; or, after a dash, why that cannot be brought about.
        Each row of a server is sent by that server on demand, too (``TestEachError``).
    """

    code: str | int
    name: str
    meaning: Meaning
    seen_in: str


_RETRY, _LOST, _REFUSED = Meaning.RETRY, Meaning.LOST, Meaning.REFUSED
_READ_ONLY, _DATA = Meaning.READ_ONLY, Meaning.DATA
_DUPLICATE, _REFERENCE = Meaning.DUPLICATE, Meaning.REFERENCE

_CLUSTER = "- needs a cluster"
_MYSQL_8 = "- MySQL 8 sends it, MariaDB does not"
_SHUTDOWN = "- needs a server that stops or starts; its sessions are the test run's"
_FULL = "- needs a server without disk or memory"
_DRIVER = "- the driver makes it of a network failure: tests.outages"
_ROLE = "- needs a server with other accounts"
_NEVER = "- documented; no statement of ours brings it about"

POSTGRESQL: tuple[ServerError, ...] = (
    ServerError("08", "connection exceptions", _LOST, _DRIVER),
    # A schema change gave a column another type: connections that have prepared a statement with
    # it refuse that from then on.
    ServerError("0A000", "feature_not_supported", _LOST, "test_a_widened_column"),
    ServerError("22", "data exceptions", _DATA, "test_values"),
    ServerError("23503", "foreign_key_violation", _REFERENCE, "test_a_missing_reference"),
    ServerError("23505", "unique_violation", _DUPLICATE, "test_a_duplicate_key"),
    ServerError("25006", "read_only_sql_transaction", _READ_ONLY, "test_read_only"),
    ServerError("25P02", "in_failed_sql_transaction", _RETRY, "test_a_failed_transaction"),
    ServerError("25P03", "idle_in_transaction_session_timeout", _LOST, "test_idle_in_transaction"),
    ServerError("25P04", "transaction_timeout", _LOST, "- PostgreSQL 17"),
    ServerError("28", "invalid authorization", _LOST, _ROLE),
    ServerError("3D000", "invalid_catalog_name", _LOST, "test_no_such_database"),
    ServerError("40000", "transaction_rollback", _RETRY, _NEVER),
    ServerError("40001", "serialization_failure", _RETRY, "test_serialization_failure"),
    ServerError("40003", "statement_completion_unknown", _LOST, _NEVER),
    ServerError("40P01", "deadlock_detected", _RETRY, "test_deadlock"),
    ServerError("53000", "insufficient_resources", _REFUSED, _FULL),
    ServerError("53100", "disk_full", _REFUSED, _FULL),
    ServerError("53200", "out_of_memory", _REFUSED, _FULL),
    ServerError("53300", "too_many_connections", _REFUSED, _ROLE),
    ServerError("53400", "configuration_limit_exceeded", _REFUSED, _FULL),
    ServerError("55P03", "lock_not_available", _REFUSED, "test_lock_timeout"),
    ServerError("57014", "query_canceled", _REFUSED, "test_statement_timeout"),
    ServerError("57P01", "admin_shutdown", _LOST, "test_a_killed_session"),
    ServerError("57P02", "crash_shutdown", _LOST, _SHUTDOWN),
    ServerError("57P03", "cannot_connect_now", _LOST, _SHUTDOWN),
    ServerError("57P04", "database_dropped", _LOST, _SHUTDOWN),
    ServerError("57P05", "idle_session_timeout", _LOST, "test_idle_session"),
    ServerError("58", "system errors", _REFUSED, _FULL),
    ServerError("XX001", "data_corrupted", _REFUSED, _FULL),
    ServerError("XX002", "index_corrupted", _REFUSED, _FULL),
)

MYSQL: tuple[ServerError, ...] = (
    ServerError(0, "the connection is closed", _LOST, _DRIVER),
    ServerError(1020, "ER_CHECKREAD", _RETRY, "test_record_changed"),
    ServerError(1021, "ER_DISK_FULL", _REFUSED, _FULL),
    ServerError(1037, "ER_OUTOFMEMORY", _REFUSED, _FULL),
    ServerError(1038, "ER_OUT_OF_SORTMEMORY", _REFUSED, _FULL),
    ServerError(1040, "ER_CON_COUNT_ERROR", _REFUSED, _ROLE),
    ServerError(1041, "ER_OUT_OF_RESOURCES", _REFUSED, _FULL),
    ServerError(1044, "ER_DBACCESS_DENIED_ERROR", _LOST, _ROLE),
    ServerError(1045, "ER_ACCESS_DENIED_ERROR", _LOST, _ROLE),
    # Galera: WSREP has not yet prepared node for application use.
    ServerError(1047, "ER_UNKNOWN_COM_ERROR", _LOST, _CLUSTER),
    ServerError(1049, "ER_BAD_DB_ERROR", _LOST, "test_no_such_database"),
    ServerError(1053, "ER_SERVER_SHUTDOWN", _LOST, _SHUTDOWN),
    ServerError(1062, "ER_DUP_ENTRY", _DUPLICATE, "test_a_duplicate_key"),
    ServerError(1114, "ER_RECORD_FILE_FULL", _REFUSED, _FULL),
    ServerError(1129, "ER_HOST_IS_BLOCKED", _LOST, _ROLE),
    ServerError(1130, "ER_HOST_NOT_PRIVILEGED", _LOST, _ROLE),
    ServerError(1135, "ER_CANT_CREATE_THREAD", _REFUSED, _FULL),
    ServerError(1152, "ER_ABORTING_CONNECTION", _LOST, _DRIVER),
    ServerError(1158, "ER_NET_READ_ERROR", _LOST, _DRIVER),
    ServerError(1159, "ER_NET_READ_INTERRUPTED", _LOST, _DRIVER),
    ServerError(1160, "ER_NET_ERROR_ON_WRITE", _LOST, _DRIVER),
    ServerError(1161, "ER_NET_WRITE_INTERRUPTED", _LOST, _DRIVER),
    # Galera sends it where certification failed late; whether it did, the look-up says.
    ServerError(1180, "ER_ERROR_DURING_COMMIT", _LOST, _CLUSTER),
    ServerError(1181, "ER_ERROR_DURING_ROLLBACK", _LOST, _CLUSTER),
    ServerError(1203, "ER_TOO_MANY_USER_CONNECTIONS", _REFUSED, _ROLE),
    ServerError(1205, "ER_LOCK_WAIT_TIMEOUT", _REFUSED, "test_lock_timeout"),
    ServerError(1206, "ER_LOCK_TABLE_FULL", _REFUSED, _FULL),
    ServerError(1213, "ER_LOCK_DEADLOCK", _RETRY, "test_deadlock"),
    # Sent in place of 1452 and 1451 to a user who may not see the other table.
    ServerError(1216, "ER_NO_REFERENCED_ROW", _REFERENCE, _MYSQL_8),
    ServerError(1217, "ER_ROW_IS_REFERENCED", _REFERENCE, _MYSQL_8),
    ServerError(1264, "ER_WARN_DATA_OUT_OF_RANGE", _DATA, "test_values"),
    ServerError(1265, "WARN_DATA_TRUNCATED", _DATA, _NEVER),
    # A value is compared with a column whose character set does not have it.
    ServerError(1267, "ER_CANT_AGGREGATE_2COLLATIONS", _DATA, _NEVER),
    ServerError(1290, "ER_OPTION_PREVENTS_STATEMENT", _READ_ONLY, _ROLE),
    ServerError(1292, "ER_TRUNCATED_WRONG_VALUE", _DATA, _NEVER),
    # There are no stored routines: it is a savepoint that ended with its transaction, which
    # a deadlock or a certification failure rolled back.
    ServerError(1305, "ER_SP_DOES_NOT_EXIST", _RETRY, "test_deadlock_in_a_savepoint"),
    ServerError(1317, "ER_QUERY_INTERRUPTED", _REFUSED, "test_a_killed_query"),
    ServerError(1366, "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD", _DATA, _NEVER),
    ServerError(1406, "ER_DATA_TOO_LONG", _DATA, "test_values"),
    ServerError(1412, "ER_TABLE_DEF_CHANGED", _RETRY, "test_a_table_that_changed"),
    ServerError(1451, "ER_ROW_IS_REFERENCED_2", _REFERENCE, "test_a_row_that_is_referred_to"),
    ServerError(1452, "ER_NO_REFERENCED_ROW_2", _REFERENCE, "test_a_missing_reference"),
    # A deadlock over a table's counter.
    ServerError(1467, "ER_AUTOINC_READ_FAILED", _RETRY, _NEVER),
    ServerError(1615, "ER_NEED_REPREPARE", _RETRY, _NEVER),
    ServerError(1637, "ER_TOO_MANY_CONCURRENT_TRXS", _REFUSED, _FULL),
    ServerError(1792, "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", _READ_ONLY, "test_read_only"),
    ServerError(1836, "ER_READ_ONLY_MODE", _READ_ONLY, _ROLE),
    ServerError(1874, "ER_INNODB_READ_ONLY", _READ_ONLY, _FULL),
    ServerError(1927, "ER_CONNECTION_KILLED", _LOST, "test_a_killed_session"),
    ServerError(1969, "ER_STATEMENT_TIMEOUT (MariaDB)", _REFUSED, "test_statement_timeout"),
    ServerError(2002, "CR_CONNECTION_ERROR", _LOST, _DRIVER),
    ServerError(2003, "CR_CONN_HOST_ERROR", _LOST, _DRIVER),
    ServerError(2005, "CR_UNKNOWN_HOST", _LOST, _DRIVER),
    ServerError(2006, "CR_SERVER_GONE_ERROR", _LOST, _DRIVER),
    ServerError(2012, "CR_SERVER_HANDSHAKE_ERR", _LOST, _DRIVER),
    ServerError(2013, "CR_SERVER_LOST", _LOST, _DRIVER),
    ServerError(2014, "CR_COMMANDS_OUT_OF_SYNC", _LOST, _DRIVER),
    ServerError(2026, "CR_SSL_CONNECTION_ERROR", _LOST, _DRIVER),
    ServerError(2027, "CR_MALFORMED_PACKET", _LOST, _DRIVER),
    ServerError(2055, "CR_SERVER_LOST_EXTENDED", _LOST, _DRIVER),
    ServerError(3024, "ER_QUERY_TIMEOUT", _REFUSED, _MYSQL_8),
    ServerError(3101, "ER_TRANSACTION_ROLLBACK_DURING_COMMIT", _RETRY, _MYSQL_8),
    ServerError(3168, "ER_SERVER_ISNT_AVAILABLE", _LOST, _MYSQL_8),
    ServerError(3169, "ER_SESSION_WAS_KILLED", _LOST, _MYSQL_8),
    ServerError(3988, "ER_IMPOSSIBLE_STRING_CONVERSION", _DATA, _MYSQL_8),
    ServerError(4031, "ER_CLIENT_INTERACTION_TIMEOUT", _LOST, _MYSQL_8),
)

SQLITE: tuple[ServerError, ...] = (
    ServerError(5, "SQLITE_BUSY", _REFUSED, "test_lock_timeout"),
    ServerError(6, "SQLITE_LOCKED", _REFUSED, "- needs a shared cache, which we do not have"),
    ServerError(7, "SQLITE_NOMEM", _REFUSED, _FULL),
    ServerError(8, "SQLITE_READONLY", _READ_ONLY, "test_read_only"),
    ServerError(9, "SQLITE_INTERRUPT", _REFUSED, "test_a_killed_query"),
    ServerError(10, "SQLITE_IOERR", _REFUSED, "- needs a disk that fails"),
    ServerError(11, "SQLITE_CORRUPT", _REFUSED, "test_a_corrupt_file"),
    ServerError(13, "SQLITE_FULL", _REFUSED, "test_a_full_file"),
    ServerError(14, "SQLITE_CANTOPEN", _REFUSED, "test_no_such_database"),
    ServerError(18, "SQLITE_TOOBIG", _DATA, _NEVER),
    ServerError(20, "SQLITE_MISMATCH", _DATA, "test_values"),
    ServerError(26, "SQLITE_NOTADB", _REFUSED, "test_a_corrupt_file"),
    ServerError(517, "SQLITE_BUSY_SNAPSHOT", _RETRY, "test_serialization_failure"),
)

#: {name of the dialect: its errors}.
BY_DIALECT = {"postgresql": POSTGRESQL, "mysql": MYSQL, "sqlite": SQLITE}

_MEANINGS = {
    dialect: {row.code: row.meaning for row in errors} for dialect, errors in BY_DIALECT.items()}


def meaning(dialect: str, code: str | int) -> Meaning | None:
    """Return what an error means; None: it is no error of this kind."""
    meanings = _MEANINGS[dialect]
    if dialect == "postgresql":
        return meanings.get(code) or meanings.get(str(code)[:2])
    if dialect == "sqlite" and isinstance(code, int):
        # The extended code says more only where it is in the table.
        return meanings.get(code) or meanings.get(code & 0xFF)
    return meanings.get(code)
