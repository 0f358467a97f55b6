"""The dashboard as the pipeline takes it: one more API, which answers HTML."""

from __future__ import annotations

from typing import Any
from wsgiref.types import WSGIApplication

from oslo_config import cfg
from pyramid.response import Response
from webob import exc

from placement_core import errors
from placement_core.http import errors as http_errors, requestlog
from placement_core.http.apis import Api
from placement_core.http.dashboard import paths, rendering, routes, sessions, static_files
from placement_core.http.dashboard.headers import SecurityHeaders
from placement_core.http.operations import Version


def _render_error(
    status: int,
    error: errors.Error | http_errors.HTTPError,
    environ: dict[str, Any],
    _version: Version | None,
) -> Response:
    """Make the page of an error: what happened, and the id by which the log has it."""
    response = rendering.respond(
        environ, "error.html", title=exc.status_map[status].title, status=status,
        message=str(error) or exc.status_map[status].explanation,
        request_id=environ.get(requestlog.ENVIRON_KEY, ""))
    if isinstance(error, http_errors.HTTPError):
        response.headerlist += error.headers
    return response


def _accept_anything(_environ: dict[str, Any], _takes_body: bool, _json_only: bool) -> None:
    """Let every ``Accept`` pass: there is HTML only."""


API = Api(
    name="dashboard",
    prefix=paths.PREFIX,
    operations=routes.OPERATIONS,
    versions=None,
    render_document=_render_error,
    check_media=_accept_anything,
    every_method=True,
    absolute_links=True,
    public_paths=tuple(f"{paths.STATIC}/{name}" for name in static_files.load().contents),
    in_openapi=False,
)


def add_sessions(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Put what knows people before the authentication of ``app``.

    :raises errors.ConfigurationError: it is not known where Keystone is.
    """
    return sessions.add_sessions(app, conf, _render_error)


def add_headers(app: WSGIApplication) -> WSGIApplication:
    """Put what adds the headers of every answer of the dashboard around ``app``."""
    return SecurityHeaders(app)
