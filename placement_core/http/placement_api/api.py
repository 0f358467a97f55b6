"""The Placement API as the pipeline takes it: its routes and its habits."""

from __future__ import annotations

from typing import Any

from pyramid.response import Response

from placement_core import errors
from placement_core.http import errors as http_errors
from placement_core.http.apis import Api
from placement_core.http.operations import Version
from placement_core.http.placement_api import answers, microversions, policies, routes
from placement_core.http.versions import Versions


def _render_document(
    status: int,
    error: errors.Error | http_errors.HTTPError,
    environ: dict[str, Any],
    version: Version | None,
) -> Response:
    """Make the error document; it has a code from 1.23 on."""
    coded = version is not None and version >= microversions.ERROR_CODES
    return http_errors.render_document(status, error, environ, coded=coded)


API = Api(
    name="placement",
    prefix="",
    operations=routes.OPERATIONS,
    versions=Versions(
        microversions.SERVICE_TYPE, lowest=microversions.LOWEST, newest=microversions.NEWEST,
        default=microversions.LOWEST),
    cache_headers_since=microversions.CACHE_HEADERS,
    render_document=_render_document,
    rules=policies.RULES,
    error_schema=answers.ERROR,
)
