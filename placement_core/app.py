"""Builds the WSGI application: middleware around a Pyramid router."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

import oslo_middleware
from oslo_config import cfg
from oslo_policy import opts as policy_opts, policy
from pyramid.config import Configurator

from placement_core import configured_database, db, errors, metrics, services, tracing
from placement_core.context import Context
from placement_core.db import sqlite_files
from placement_core.http import (
    access_fields,
    conditional,
    identity,
    probes,
    request_metrics,
    request_spans,
    requestlog,
    roles,
    routing,
    tweens,
)
from placement_core.http.apis import Api, ApisByPath
from placement_core.http.capacity_api.api import API as CAPACITY
from placement_core.http.concurrency import ConcurrencyLimit, RequestSlots
from placement_core.http.leases_api.api import API as RESERVATIONS
from placement_core.http.limits_api.api import API as LIMITS
from placement_core.http.local_callers import LocalCallers
from placement_core.http.placement_api.api import API as PLACEMENT
from placement_core.http.policy import Authorizer, make_enforcer
from placement_core.http.project_share import ProjectShare
from placement_core.http.readiness import Readiness
from placement_core.http.response_cache import ResponseCache
from placement_core.http.unexpected_errors import UnexpectedErrors
from placement_core.http.worker_reports import WorkerReports
from placement_core.migrations import compatibility
from placement_core.monitoring.process import ProcessNotes
from placement_core.monitoring.state import StateReader
from placement_core.placement import standard
from placement_core.services import Services

LOG = logging.getLogger(__name__)

#: The APIs of the service.
APIS: Sequence[Api] = (PLACEMENT, LIMITS, RESERVATIONS, CAPACITY)


def make_app(
    conf: cfg.ConfigOpts, *, apis: Sequence[Api] = APIS,
    on_end: Callable[[Callable[[], None]], object] = lambda _hook: None,
) -> WSGIApplication:
    """Build the WSGI application, which can be mounted under any prefix.

    :param on_end: takes what is to be called as soon as the process is told to end, in a thread
        of its own: requests that wait for changes then wait no longer.
    :raises errors.ConfigurationError: one line with option, value and expectation.
    """
    parts = services.build(conf)
    try:
        app = _assemble(parts, apis)
        on_end(functools.partial(_end, parts))
        _prepare_database(parts.context(), parts)
    except BaseException:
        # Whoever called may try again and again.
        parts.database.dispose()
        raise
    if conf.api.auth_strategy == "noauth2" and conf.api.allow_remote_noauth2:
        LOG.warning("[api] allow_remote_noauth2: whatever a caller says is believed")
    LOG.info(
        "serving on %s, writes %s, worker %d, auth %s, catalog %s, limits %s, model %s",
        parts.database.masked_url,
        "BEGIN IMMEDIATE" if parts.database.dialect == "sqlite" else "READ COMMITTED",
        os.getpid(), conf.api.auth_strategy, conf.catalog.driver, conf.limits.driver,
        conf.limits.enforcement_model)
    return app


def _end(parts: Services) -> None:
    """Let nobody wait any more, and report for the last time."""
    parts.watch.stop()
    if parts.reporter is not None:
        parts.reporter.stop()


def check_configuration(conf: cfg.ConfigOpts) -> None:
    """Find out what of the options would stop the service at its start; ask no database.

    :raises errors.ConfigurationError: one line: option, value, expectation.
    """
    with _assembled(conf):
        pass


def check(conf: cfg.ConfigOpts) -> str:
    """Find out what would stop the service at its start, before a port is opened.

    :returns: the database's URL, masked. Its schema is the newest.
    :raises errors.ConfigurationError: one line: option, value, expectation.
    """
    with _assembled(conf) as parts:
        configured_database.wait_until_it_answers(conf)
        compatibility.require_newest(parts.database)
        _check_depth(parts)
        return parts.database.masked_url


@contextlib.contextmanager
def _assembled(conf: cfg.ConfigOpts) -> Iterator[Services]:
    """Build the service, and let it go."""
    parts = services.build(conf)
    try:
        _assemble(parts, APIS)
        yield parts
    finally:
        parts.database.dispose()


def _assemble(parts: Services, apis: Sequence[Api]) -> WSGIApplication:
    """Put the middleware around the APIs, the outermost last."""
    conf = parts.conf
    dashboard = _load_dashboard() if conf.dashboard.enabled else None
    if dashboard is not None:
        apis = [*apis, dashboard.API]
    if conf.metrics.enabled:
        metrics.start()
    if conf.tracing.enabled:
        tracing.start()
    authorizer = Authorizer(conf, _collect_rules(apis))
    bodies = conditional.Bodies()
    app: WSGIApplication = ResponseCache(
        _make_router(apis, parts, authorizer, bodies),
        [api.prefix for api in apis if api.versions is None], parts, authorizer, bodies)
    by_path = ApisByPath(apis)
    if conf.api.max_concurrent_requests_per_project:
        app = ProjectShare(
            app, conf.api.max_concurrent_requests_per_project, by_path,
            lambda caller: authorizer.allows(roles.SERVICE.partition(":")[2], identity=caller))
    app = identity.add_authentication(app, conf, apis)
    if dashboard is not None:
        app = dashboard.add_sessions(app, conf)
    if conf.api.auth_strategy == "noauth2" and not conf.api.allow_remote_noauth2:
        app = LocalCallers(app, by_path)
    slots = RequestSlots(
        conf.api.max_concurrent_requests, conf.api.max_waiting_requests,
        conf.api.max_wait_seconds, lambda: parts.database.availability.is_troubled)
    if conf.api.max_concurrent_requests:
        app = ConcurrencyLimit(app, slots, by_path)
    if conf.metrics.enabled:
        app = request_metrics.RequestMetrics(app, by_path, ProcessNotes(
            parts.database, conf.api.max_concurrent_requests, slots.count_waiting))
    if parts.reporter is not None:
        app = WorkerReports(app, parts.reporter)
    app = UnexpectedErrors(_add_health(app, parts), by_path)
    if dashboard is not None:
        app = dashboard.add_headers(app)
    if conf.cors.allowed_origin:
        app = oslo_middleware.CORS(app, conf)
    # The file that log_config_append names may have any format.
    wants_fields = conf.use_json or conf.log_config_append
    app = requestlog.RequestLog(
        app, probes.ALL, access_fields.list_fields if wants_fields else None)
    if conf.tracing.enabled:
        app = request_spans.RequestSpans(app, probes.ALL)
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        app = oslo_middleware.HTTPProxyToWSGI(app, conf)
    return app


def list_rules() -> list[policy.RuleDefault]:
    """Return the default policy rules of the service, aliases first (``oslo.policy.policies``)."""
    return _collect_rules(APIS)


def make_sample_enforcer() -> policy.Enforcer:
    """Return an enforcer for oslo.policy's generators, on the global options."""
    cfg.CONF([], project="placement")
    policy_opts.set_defaults(cfg.CONF)
    return make_enforcer(cfg.CONF, list_rules())


def _collect_rules(apis: Sequence[Api]) -> list[policy.RuleDefault]:
    # APIs may share rules.
    rules = {rule.name: rule for api in apis for rule in api.rules}
    return [*roles.RULES, *rules.values()]


def _make_router(
    apis: Sequence[Api], parts: Services, authorizer: Authorizer, bodies: conditional.Bodies
) -> WSGIApplication:
    with Configurator(
        # Our own tween renders every exception; Pyramid's own would only cost time.
        settings={"pyramid.tweens": [f"{tweens.__name__}.api_tween"]},
        introspection=False,
    ) as config:
        routing.include(config, apis, parts, authorizer, bodies)
        router: WSGIApplication = config.make_wsgi_app()
        return router


def _load_dashboard() -> types.ModuleType:
    """Return the dashboard's API; its templates need a package that others do not."""
    try:
        from placement_core.http.dashboard import api
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise errors.ConfigurationError(
            "[dashboard] enabled = true: expected the package Jinja2, which "
            "pip install 'placement-core[dashboard]' brings") from error
    return api


def _add_health(app: WSGIApplication, parts: Services) -> WSGIApplication:
    """Serve liveness, readiness and metrics before authentication and the APIs."""
    pages: dict[str, WSGIApplication] = {
        probes.LIVENESS_PATH: oslo_middleware.Healthcheck(None, parts.conf),
        probes.READINESS_PATH: Readiness(
            parts, functools.partial(compatibility.read_status, parts.database)),
    }
    if parts.conf.metrics.enabled:
        # It needs prometheus-client.
        from placement_core.monitoring import page

        pages[probes.METRICS_PATH] = page.make_page(StateReader(parts.context, parts.index).get)

    def route(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        return pages.get(environ.get("PATH_INFO", ""), app)(environ, start_response)

    return route


@db.retry_writes
def _prepare_database(ctx: Context, parts: Services) -> None:
    """Wait for the database, upgrade or check its schema, and insert standard names.

    A connection that is lost meanwhile does not end the process: the server of the workers ends
    when one of them does so twice in a few seconds.
    """
    configured_database.wait_until_it_answers(parts.conf)
    if (parts.conf.placement_database.sync_on_startup
            and not compatibility.read_status(parts.database).usable):
        # Alembic, which other starts can do without.
        from placement_core.migrations import sync

        sync.sync(configured_database.make_settings(parts.conf), LOG.info)
    # A worker may take the place of one that died while the next release is rolled out.
    compatibility.require_usable(parts.database)
    standard.ensure(ctx)
    _check_depth(parts)
    for path in sqlite_files.find_exposed(parts.conf.placement_database.connection):
        LOG.warning("%s can be read by others than its owner, and passwords of cells' databases "
                    "may be in it: chmod 600", path)
    _log_gaps(parts)


def _log_gaps(parts: Services) -> None:
    """Log which registered limits bind no project."""
    try:
        for gap in parts.limit_gaps(parts.context()):
            LOG.warning("%s", gap)
    except errors.Unavailable as error:
        LOG.warning("whether every registered limit binds is not known now: %s", error)


def _check_depth(parts: Services) -> None:
    """Refuse to start if project trees are deeper than the enforcement model allows."""
    model = parts.model
    if model.max_depth is None or not parts.catalog.local:
        return
    depth = parts.catalog.depth(parts.context())
    if depth > model.max_depth:
        raise errors.ConfigurationError(
            f"[limits] enforcement_model = {parts.conf.limits.enforcement_model}: expected "
            f"trees of projects of at most {model.max_depth} levels, the domain included; "
            f"the catalog has one of {depth}")
