"""All groups of options, for the service and for the sample file."""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log
from oslo_middleware import cors, http_proxy_to_wsgi
from oslo_middleware.healthcheck import opts as healthcheck_opts
from oslo_policy import opts as policy_opts

from placement_core.conf import (
    api,
    audit,
    catalog,
    cells,
    changes,
    compute,
    dashboard,
    database,
    enforcement,
    least_stranded,
    limits,
    metrics,
    paths,
    placement,
    quota,
    reservations,
    thresholds,
    tracing,
    usage_intervals,
    workarounds,
    workers,
)

_GROUPS: tuple[tuple[cfg.OptGroup | None, list[cfg.Opt]], ...] = (
    (None, paths.OPTIONS),
    (api.GROUP, api.OPTIONS),
    (database.GROUP, database.OPTIONS),
    (placement.GROUP, placement.OPTIONS),
    (least_stranded.GROUP, least_stranded.OPTIONS),
    (usage_intervals.GROUP, usage_intervals.OPTIONS),
    (catalog.GROUP, catalog.OPTIONS),
    (limits.GROUP, limits.OPTIONS),
    (quota.GROUP, quota.OPTIONS),
    (changes.GROUP, changes.OPTIONS),
    (audit.GROUP, audit.OPTIONS),
    (thresholds.GROUP, thresholds.OPTIONS),
    (cells.API_GROUP, cells.API_OPTIONS),
    (cells.GROUP, cells.OPTIONS),
    (compute.GROUP, compute.OPTIONS),
    (reservations.GROUP, reservations.OPTIONS),
    (enforcement.GROUP, enforcement.OPTIONS),
    (metrics.GROUP, metrics.OPTIONS),
    (tracing.GROUP, tracing.OPTIONS),
    (dashboard.GROUP, dashboard.OPTIONS),
    (workers.GROUP, workers.OPTIONS),
    (workarounds.GROUP, workarounds.OPTIONS),
)

#: The headers that a browser application may send and read, if its origin is allowed.
_CORS_DEFAULTS = {
    "allow_headers": ["X-Auth-Token", "X-OpenStack-Request-Id", "OpenStack-API-Version"],
    "expose_headers": ["X-OpenStack-Request-Id", "OpenStack-API-Version"],
    "allow_methods": ["GET", "PUT", "POST", "PATCH", "DELETE"],
}


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options of the service and of its libraries."""
    for group, options in _GROUPS:
        if group is None:
            conf.register_opts(options)
        else:
            # A new group each time, because a shared one would carry values from conf to conf.
            conf.register_group(cfg.OptGroup(group.name, group.title, group.help))
            conf.register_opts(options, group=group)
    log.register_options(conf)
    conf.set_default("default_log_levels", [
        *log.get_default_log_levels(), "alembic=WARN",
        # It logs a traceback for each error that it does not know; we classify all errors.
        "oslo_db.sqlalchemy.exc_filters=ERROR",
        # They warn of each header of a client that is not valid.
        "opentelemetry.baggage=ERROR", "opentelemetry.trace=ERROR"])
    policy_opts.set_defaults(conf)
    conf.register_opts(cors.OPTS, group="cors")
    for name, value in _CORS_DEFAULTS.items():
        conf.set_default(name, value, group="cors")
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.register_opts(healthcheck_opts.HEALTHCHECK_OPTS, group="healthcheck")


def list_opts() -> list[tuple[cfg.OptGroup | None, list[cfg.Opt]]]:
    """Return our own options for oslo-config-generator."""
    return [(group, list(options)) for group, options in _GROUPS]
