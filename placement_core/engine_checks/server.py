"""What the server is, how it is configured, and its data definition language."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.db import engines
from placement_core.db.failures import describe_error
from placement_core.engine_checks.results import Broken, Limited, require
from placement_core.engine_checks.trial import Trial
from placement_core.migrations import fence


def version_is_known(trial: Trial) -> None:
    """The engine has at least the version whose features the service uses."""
    engine = engines.identify(trial.database)
    if not engine.is_supported:
        raise Broken(engine.expected, str(engine))


def tables_are_transactional(trial: Trial) -> None:
    """Tables are InnoDB's: other engines have neither transactions nor row locks."""
    with db.read_once(trial.context()) as session:
        engine = session.execute(
            sa.text("SELECT engine FROM information_schema.tables "
                    "WHERE table_schema = DATABASE() AND table_name = :name"),
            {"name": trial.tables.rows.name}).scalar()
    require("innodb", str(engine).lower(), "the storage engine of a new table")


def commits_are_durable(trial: Trial) -> None:
    """What was acknowledged survives a crash."""
    risks = []
    for setting, select, safe, loss in _DURABILITY[trial.dialect]:
        with db.write(trial.context()) as session:
            value = session.connection.exec_driver_sql(select).scalar()
        if str(value) not in safe:
            risks.append(f"{setting} is {value}: {loss}")
    if risks:
        raise Limited("; ".join(risks))


_LAST = "a crash of the machine may lose the last commits that clients were told of"
#: For each dialect: the setting, how it is read, its safe values, and what others mean.
_DURABILITY = {
    "sqlite": (
        # 2 is FULL, 3 EXTRA.
        ("PRAGMA synchronous ([placement_database] sqlite_synchronous)",
         "PRAGMA synchronous", ("2", "3"), _LAST),
    ),
    "postgresql": (
        ("fsync", "SHOW fsync", ("on",), "a crash of the machine may destroy the database"),
        ("full_page_writes", "SHOW full_page_writes", ("on",),
         "a crash of the machine may destroy the database"),
        ("synchronous_commit", "SHOW synchronous_commit",
         ("on", "local", "remote_write", "remote_apply"), _LAST),
    ),
    "mysql": (
        ("innodb_flush_log_at_trx_commit", "SELECT @@innodb_flush_log_at_trx_commit", ("1", "3"),
         _LAST),
        # With a binary log, InnoDB leaves it the last sync of a commit, but not with MariaDB's 3.
        ("sync_binlog",
         "SELECT IF(@@log_bin AND @@innodb_flush_log_at_trx_commit <> 3, @@sync_binlog, 1)",
         ("1",), _LAST),
        ("innodb_doublewrite", "SELECT @@innodb_doublewrite", ("1", "ON", "DETECT_AND_RECOVER"),
         "a crash of the machine may destroy the database"),
    ),
}


def other_nodes_are_waited_for(trial: Trial) -> None:
    """On a Galera cluster, a read waits for what other nodes have acknowledged."""
    for opened in (db.read, db.read_once):
        with opened(trial.context()) as session:
            variables = dict(map(tuple, session.execute(sa.text(
                "SHOW VARIABLES WHERE variable_name IN ('wsrep_on', 'wsrep_sync_wait')")).all()))
        if variables.get("wsrep_on") == "ON" and not int(variables["wsrep_sync_wait"]) & 1:
            raise Limited("wsrep_sync_wait is 0: a worker on another node may answer without "
                          "the last acknowledged write")


def schema_changes_roll_back(trial: Trial) -> None:
    """A schema change is part of its transaction, so an interrupted `db sync` changes nothing."""
    with trial.database.writer.connect() as connection:
        transaction = connection.begin()
        trial.tables.ddl.create(connection)
        transaction.rollback()
    with trial.database.autocommit.connect() as connection:
        exists = sa.inspect(connection).has_table(trial.tables.ddl.name)
    require(False, exists, "whether a table exists whose creation was rolled back")


def triggers_keep_strangers_out(trial: Trial) -> None:
    """Triggers refuse writes of connections without the service's mark, and no others."""
    table = trial.tables.ddl
    with trial.database.writer.connect() as connection, connection.begin():
        table.create(connection)
    try:
        _fence(trial)
        with db.write(trial.context()) as session:
            session.execute(sa.insert(table), {"id": 1})
        for statement in (sa.insert(table).values(id=2), sa.update(table).values(id=3),
                          sa.delete(table)):
            with trial.stranger() as connection:
                try:
                    connection.execute(statement)
                except sa.exc.DBAPIError:
                    continue
            raise Broken("a write without the mark is refused", f"it passed: {statement}")
    finally:
        with trial.database.writer.connect() as connection, connection.begin():
            table.drop(connection)


def _fence(trial: Trial) -> None:
    try:
        with trial.database.writer.connect() as connection, connection.begin():
            fence.create_triggers(connection, [trial.tables.ddl.name], trial.fence_name)
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if trial.dialect != "mysql":
            raise
        raise Limited(
            f"the server does not let us make triggers ({describe_error(error)}): after `db sync` "
            "has taken over a database of OpenStack Placement, updates and deletes of an old "
            "process that still runs would pass") from error
