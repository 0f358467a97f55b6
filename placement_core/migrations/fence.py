"""Keeps an old upstream process from writing into a database we took over.

Its inserts of allocations and inventories fail by themselves: columns of ours
are NOT NULL without a default. What it updates and deletes would pass unseen and
leave ``used``, ``capacity`` and the change log wrong, so triggers refuse every
write of a connection that does not bear our mark (``db.database`` sets it on
each connection). Only databases that upstream made are fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.db import database

#: What upstream writes and we keep copies or sums of.
TABLES = (
    "allocations", "inventories", "resource_providers", "resource_provider_traits",
    "resource_provider_aggregates", "resource_classes", "traits",
)
_EVENTS = ("insert", "update", "delete")
_REFUSAL = "placement-core took this database over: stop the old Placement service"

_POSTGRESQL_FUNCTION = f"""
CREATE OR REPLACE FUNCTION placement_core_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('{database.POSTGRESQL_MARK}', true) IS DISTINCT FROM 'on' THEN
    RAISE EXCEPTION '{_REFUSAL}';
  END IF;
  RETURN NULL;
END $$
"""


def put_up(connection: sa.Connection, say: Callable[[str], None]) -> None:
    """Refuse the writes of connections without our mark, from now on.

    MariaDB allows triggers only with the TRIGGER privilege and, where it keeps
    a binary log, with ``log_bin_trust_function_creators`` or SUPER. Without
    them the NOT NULL columns are the whole fence, and ``say`` tells so.
    """
    remove(connection)
    try:
        for statement in _making(connection.dialect.name):
            connection.exec_driver_sql(statement)
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if connection.dialect.name not in ("mysql", "mariadb"):
            raise
        remove(connection)
        say(
            "WARNING: the server does not let us make triggers "
            f"({getattr(error, 'orig', None) or error}). Inserts of an old Placement service "
            "will fail, its updates and deletes will not: make sure that none is running."
        )


def remove(connection: sa.Connection) -> None:
    """Let everybody write again."""
    for statement in _removing(connection.dialect.name):
        connection.exec_driver_sql(statement)


def is_up(connection: sa.Connection) -> bool:
    """Say whether the fence stands."""
    queries = {
        "postgresql": "SELECT count(*) FROM pg_trigger WHERE tgname = 'placement_core_fence'",
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' "
                  "AND name LIKE 'placement_core_fence%'",
    }
    mysql = ("SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
             "AND trigger_name LIKE 'placement_core_fence%'")
    return bool(connection.scalar(sa.text(queries.get(connection.dialect.name, mysql))))


def _making(dialect: str) -> Iterator[str]:
    if dialect == "postgresql":
        yield _POSTGRESQL_FUNCTION
        for table in TABLES:
            yield (
                "CREATE TRIGGER placement_core_fence BEFORE INSERT OR UPDATE OR DELETE "
                f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION placement_core_fence()"
            )
        return
    if dialect == "sqlite":
        # A connection of another program lacks the function; its name is the
        # message that program shows.
        body = f"BEGIN SELECT {database.SQLITE_MARK}(); END"
    else:
        body = (
            f"BEGIN IF {database.MYSQL_MARK} IS NULL THEN SIGNAL SQLSTATE '45000' "
            f"SET MESSAGE_TEXT = '{_REFUSAL}'; END IF; END"
        )
    for table in TABLES:
        for event in _EVENTS:
            yield (
                f"CREATE TRIGGER placement_core_fence_{table}_{event} "
                f"BEFORE {event.upper()} ON {table} FOR EACH ROW {body}"
            )


def _removing(dialect: str) -> Iterator[str]:
    if dialect == "postgresql":
        for table in TABLES:
            yield f"DROP TRIGGER IF EXISTS placement_core_fence ON {table}"
        yield "DROP FUNCTION IF EXISTS placement_core_fence()"
        return
    for table in TABLES:
        for event in _EVENTS:
            yield f"DROP TRIGGER IF EXISTS placement_core_fence_{table}_{event}"
