"""The database that the configuration names; it imports nothing that uses one."""

from __future__ import annotations

from oslo_config import cfg

from placement_core.changes.journal import Journal
from placement_core.db import engines, startup
from placement_core.db.database import Database, Settings


def make_settings(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of ``[placement_database]``."""
    group = conf.placement_database
    return Settings(
        connection=group.connection,
        connection_parameters=group.connection_parameters,
        max_pool_size=group.max_pool_size,
        max_overflow=group.max_overflow,
        pool_timeout_seconds=group.pool_timeout,
        connection_recycle_seconds=group.connection_recycle_time,
        statement_timeout_seconds=group.statement_timeout_seconds,
        lock_timeout_seconds=group.lock_timeout_seconds,
        idle_in_transaction_timeout_seconds=group.idle_in_transaction_timeout_seconds,
        sqlite_synchronous=group.sqlite_synchronous,
        mysql_sql_mode=group.mysql_sql_mode or None,
        network_timeout_seconds=group.network_timeout_seconds,
        retry_timeout_seconds=group.retry_timeout_seconds,
    )


def wait_until_it_answers(conf: cfg.ConfigOpts) -> None:
    """Wait for the database, for as long as ``[placement_database]`` says.

    :raises errors.ConfigurationError: it does not answer, or is too old; one line.
    """
    group = conf.placement_database
    database = Database(make_settings(conf), Journal())
    try:
        startup.wait_for_answer(
            database, retries=group.max_retries, interval_seconds=group.retry_interval)
        engines.require_supported(database)
    finally:
        database.dispose()
