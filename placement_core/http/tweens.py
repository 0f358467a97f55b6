"""The Pyramid tween around all routes.

It determines the API and the microversion of a request, and renders all exceptions.
Source: spec placement_api §1.1 to §1.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyramid.httpexceptions import HTTPNotFound
from pyramid.request import Request
from pyramid.response import Response

from placement_core import errors
from placement_core.db import failures
from placement_core.http import errors as http_errors, requestlog
from placement_core.http.apis import ApisByPath
from placement_core.http.errors import HTTPError
from placement_core.http.operations import ONLY
from placement_core.http.versions import HEADER, format_version

LOG = logging.getLogger(__name__)

_JSON = "application/json"

_JSON_SUFFIX = ".json"


def api_tween(
    handler: Callable[[Request], Response], registry: Any
) -> Callable[[Request], Response]:
    """Make the tween that parses the version and renders every error."""
    apis: ApisByPath = registry.placement_core_apis

    def answer(request: Request) -> Response:
        environ = request.environ
        path = environ.get("PATH_INFO", "")
        api = apis.find(path)
        versions = api.versions
        version = None
        try:
            if versions is not None:
                version = request.microversion = versions.get_requested(environ)
                environ[requestlog.MICROVERSION_KEY] = format_version(version)
                _check_content_headers(environ)
            else:
                request.microversion = ONLY
                _check_content_length(environ)
                if api.every_method and path.endswith("/"):
                    environ["PATH_INFO"] = path.rstrip("/")
            if api.json_suffix and path.endswith(_JSON_SUFFIX):
                environ["PATH_INFO"] = path.removesuffix(_JSON_SUFFIX)
                environ["HTTP_ACCEPT"] = _JSON
            response = handler(request)
        except (HTTPError, errors.Error) as error:
            response = http_errors.render_error(api.render_document, error, environ, version)
        except HTTPNotFound:
            response = api.render_document(404, errors.NotFound(), environ, version)
        except UnicodeDecodeError:
            invalid = errors.Invalid("The path is not UTF-8.")
            response = api.render_document(400, invalid, environ, version)
        except Exception as error:
            unavailable = failures.translate(error)
            if isinstance(unavailable, errors.Unavailable):
                unavailable.__cause__ = error
                response = http_errors.render_error(api.render_document, unavailable, environ,
                                                    version)
            else:
                # Not the text of the exception: it may hold internals.
                LOG.exception("request %s failed", environ.get(requestlog.ENVIRON_KEY))
                response = api.render_document(500, errors.Error(), environ, version)
                # As OpenStack Placement's, its headers tell of no microversion.
                version = None
        if version is not None and versions is not None:
            response.headerlist += (
                (HEADER, f"{versions.service_type} {format_version(version)}"),
                ("Vary", HEADER.lower()),
            )
        else:
            response.headerlist += api.headers
        return response

    return answer


def _check_content_headers(environ: dict[str, Any]) -> None:
    length = environ.get("CONTENT_LENGTH")
    if not length:
        return
    if not (length.isascii() and length.isdigit()):
        raise HTTPError(400, "content-length header must be an integer")
    if length.strip("0") and not environ.get("CONTENT_TYPE"):
        raise HTTPError(400, "content-type header required when content-length > 0")


def _check_content_length(environ: dict[str, Any]) -> None:
    length = environ.get("CONTENT_LENGTH")
    if length and not (length.isascii() and length.isdigit()):
        raise HTTPError(400, "content-length header must be an integer")
