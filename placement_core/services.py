"""Picks the implementations: the one place that knows which class plays which part."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import TypeVar

from oslo_config import cfg

from placement_core.changes.journal import Journal
from placement_core.context import Context, Identity
from placement_core.db.database import Database, Settings
from placement_core.placement.index import CapacityIndex
from placement_core.plugin_api import loader
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.plugin_api.limits import LimitDriver

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What the edges (HTTP, commands) are handed.

    :ivar model: how limits are read in a tree of projects.
    :ivar advertised_model: the one that clients are told of; mostly the same.
    """

    conf: cfg.ConfigOpts
    database: Database
    index: CapacityIndex
    catalog: CatalogDriver
    limits: LimitDriver
    model: EnforcementModel
    advertised_model: EnforcementModel

    def context(
        self, identity: Identity = Identity(), request_id: str | None = None  # noqa: B008
    ) -> Context:
        """Return the context of one request or one command."""
        return Context(self.database, identity, request_id)


def build(conf: cfg.ConfigOpts) -> Services:
    """Make the parts that ``conf`` asks for; nothing is connected to yet.

    :raises errors.ConfigurationError: the database URL or a driver cannot be used.
    """
    database = Database(
        database_settings(conf), Journal(),
        retries=conf.placement.allocation_conflict_retry_count)
    database.incomplete_owner = (
        conf.placement.incomplete_consumer_project_id,
        conf.placement.incomplete_consumer_user_id,
    )
    _log_statements(conf.placement_database.connection_debug)
    model = _model(conf, conf.limits.enforcement_model, "enforcement_model")
    advertised = conf.limits.advertised_model
    return Services(
        conf, database, CapacityIndex(database),
        catalog=_driver(
            conf, "placement_core.catalog", conf.catalog.driver,
            CatalogDriver,  # type: ignore[type-abstract]
            "[catalog] driver"),
        limits=_driver(
            conf, "placement_core.limits", conf.limits.driver,
            LimitDriver,  # type: ignore[type-abstract]
            "[limits] driver"),
        model=model,
        advertised_model=_model(conf, advertised, "advertised_model") if advertised else model,
    )


def _model(conf: cfg.ConfigOpts, name: str, option: str) -> EnforcementModel:
    return _driver(
        conf, "placement_core.enforcement", name,
        EnforcementModel,  # type: ignore[type-abstract]
        f"[limits] {option}")


def _driver(
    conf: cfg.ConfigOpts, namespace: str, name: str, base: type[T], option: str
) -> T:
    """Make the driver that an option names."""
    # Drivers of every kind are made of the options; ``base`` does not say so.
    make: Callable[[cfg.ConfigOpts], T] = loader.load(namespace, name, base, option=option)
    return make(conf)


def database_settings(conf: cfg.ConfigOpts) -> Settings:
    """Return how ``[placement_database]`` says the database is reached."""
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
    )


def _log_statements(connection_debug: int) -> None:
    """Log statements, and results too, as oslo.db understands the option."""
    if connection_debug >= 50:
        level = logging.DEBUG if connection_debug >= 100 else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)
