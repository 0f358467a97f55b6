"""Keep processes of upstream Placement from writing to an adopted database.

Their inserts of allocations and inventories fail without it, because added columns are NOT NULL
without a default. (Not always on MariaDB: upstream takes the connection that inserted the standard
classes out of strict mode, and keeps it.) Their updates and deletes would make ``used``,
``capacity`` and the change log wrong, so triggers refuse every write of a connection without the
mark that ``db.database`` sets on each connection of this service. Only databases that upstream
created are fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.db import drivers, failures

#: Tables that upstream writes, and of which this service keeps copies or sums.
TABLES = (
    "allocations", "inventories", "resource_providers", "resource_provider_traits",
    "resource_provider_aggregates", "resource_classes", "traits",
)
_EVENTS = ("insert", "update", "delete")
_REFUSAL = "placement-core took this database over: stop the old Placement service"

_NAME = "placement_core_fence"
#: PostgreSQL's triggers all have one name, and belong to a table each.
_TRIGGERS = {
    "postgresql": "SELECT tgname || '_' || relname FROM pg_trigger "
                  "JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
}
_MYSQL_TRIGGERS = (
    "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()")

_POSTGRESQL_FUNCTION_BODY = f"""
BEGIN
  IF current_setting('{drivers.POSTGRESQL_MARK}', true) IS DISTINCT FROM 'on' THEN
    RAISE EXCEPTION '{_REFUSAL}';
  END IF;
  RETURN NULL;
END
"""


def put_up(connection: sa.Connection, say: Callable[[str], None]) -> None:
    """Create the triggers that are missing, which refuse writes of connections without the mark.

    Those that are there stay, so that the fence never has a gap.

    MariaDB requires the TRIGGER privilege and, with a binary log, either
    ``log_bin_trust_function_creators`` or SUPER. Without them only the NOT NULL columns protect
    the database, and ``say`` is called with a line about it.
    """
    if is_up(connection):
        return
    try:
        create_triggers(connection, TABLES)
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if not failures.is_missing_privilege(error):
            raise
        say(
            "WARNING: the server does not let us make triggers "
            f"({str(error).partition(chr(10))[0]}). Inserts of an old Placement service "
            "will fail, its updates and deletes will not: make sure that none is running."
        )


def create_triggers(
    connection: sa.Connection, tables: Sequence[str], name: str = _NAME
) -> None:
    """Create the triggers of some tables that are missing.

    :param name: of the triggers or what their names begin with, and of PostgreSQL's function.
    :raises oslo_db.exception.DBError: the server does not let us.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql "
            f"AS $${_POSTGRESQL_FUNCTION_BODY}$$")
    present = _list_triggers(connection, name)
    for trigger, statement in _build_triggers(connection.dialect.name, tables, name):
        if trigger not in present:
            connection.exec_driver_sql(statement)


def remove(connection: sa.Connection) -> None:
    """Drop the triggers, so that all connections can write."""
    if connection.dialect.name == "postgresql":
        for table in TABLES:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_NAME} ON {table}")
        connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {_NAME}()")
        return
    # Drop existing triggers only: on MariaDB even DROP ... IF EXISTS needs the privilege.
    for name in _list_triggers(connection, _NAME):
        connection.exec_driver_sql(f"DROP TRIGGER {name}")


def is_up(connection: sa.Connection) -> bool:
    """Return whether all triggers exist."""
    present = _list_triggers(connection, _NAME)
    return all(trigger in present for trigger, _ in _build_triggers(
        connection.dialect.name, TABLES, _NAME))


def _list_triggers(connection: sa.Connection, name: str) -> set[str]:
    """Return the names of the triggers that begin so, as ``_build_triggers`` has them."""
    query = _TRIGGERS.get(connection.dialect.name, _MYSQL_TRIGGERS)
    return {trigger for trigger in connection.scalars(sa.text(query)) if trigger.startswith(name)}


def _build_triggers(
    dialect: str, tables: Sequence[str], name: str
) -> Iterator[tuple[str, str]]:
    """Yield a name and a statement for each trigger: one for each table, or table and event."""
    if dialect == "postgresql":
        for table in tables:
            yield f"{name}_{table}", (
                f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE OR DELETE ON {table} "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )
        return
    if dialect == "sqlite":
        # A connection of another program lacks the function; its name is the
        # message that program shows.
        body = f"BEGIN SELECT {drivers.SQLITE_MARK}(); END"
    else:
        body = (
            f"BEGIN IF {drivers.MYSQL_MARK} IS NULL THEN SIGNAL SQLSTATE '45000' "
            f"SET MESSAGE_TEXT = '{_REFUSAL}'; END IF; END"
        )
    for table in tables:
        for event in _EVENTS:
            trigger = f"{name}_{table}_{event}"
            yield trigger, (
                f"CREATE TRIGGER {trigger} "
                f"BEFORE {event.upper()} ON {table} FOR EACH ROW {body}"
            )
