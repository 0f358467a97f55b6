"""URLs of the service and of requests, as callers see them."""

from __future__ import annotations

import urllib.parse
from typing import Any

from pyramid.request import Request
from webob.request import PATH_SAFE

_IN_QUERIES = f"{PATH_SAFE}?%"


def get_root_url(environ: dict[str, Any]) -> str:
    """Return where the app is mounted, as a URL."""
    return f"{get_host_url(environ)}{get_mount_path(environ)}"


def get_mount_path(environ: dict[str, Any]) -> str:
    """Return where the app is mounted, as a path; ``""`` at the root.

    WebOb has it within ``application_url`` only, behind its ``host_url``.
    """
    script_name = environ.get("SCRIPT_NAME", "")
    return quote_path(script_name.encode("latin-1")) if script_name else ""


def get_host_url(environ: dict[str, Any]) -> str:
    """Return scheme and host as the caller sees them.

    With the port that the caller named: WebOb's ``host_url`` leaves out ports 80 and 443.
    """
    host = environ.get("HTTP_HOST")
    if not host:
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}"


def get_request_url(request: Request) -> str:
    """Return the URL of a request.

    WebOb's ``url`` is built on ``host_url``, and leaves the query string as it came.
    """
    address = f"{get_host_url(request.environ)}{request.path}"
    query = request.query_string
    # Unchanged, except for characters that no URL may have.
    return f"{address}?{urllib.parse.quote(query.encode('latin-1'), safe=_IN_QUERIES)}" \
        if query else address


def quote_path(path: str | bytes) -> str:
    """Return a path, percent-encoded as WebOb does it."""
    return urllib.parse.quote(path, safe=PATH_SAFE)
