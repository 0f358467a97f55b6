"""URLs as callers see them: of the service, and of what they asked for."""

from __future__ import annotations

import urllib.parse
from typing import Any

_IN_QUERIES = "/:~!$&'()*+,;=@?%"


def root_url(environ: dict[str, Any]) -> str:
    """Return where the app is mounted, as a URL."""
    return f"{host(environ)}{mount(environ)}"


def mount(environ: dict[str, Any]) -> str:
    """Return where the app is mounted, as a path; ``""`` at the root."""
    script_name = environ.get("SCRIPT_NAME", "")
    return quoted(script_name.encode("latin-1")) if script_name else ""


def host(environ: dict[str, Any]) -> str:
    """Return scheme and host as the caller sees them."""
    host = environ.get("HTTP_HOST")
    if not host:
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}"


def address(prefix: str, environ: dict[str, Any]) -> str:
    """Return the URL that was asked for."""
    address = f"{prefix}{quoted(environ['PATH_INFO'].encode('latin-1'))}"
    query = environ.get("QUERY_STRING")
    # As it came, but for what no URL holds.
    return f"{address}?{urllib.parse.quote(query.encode('latin-1'), safe=_IN_QUERIES)}" \
        if query else address


def quoted(path: str | bytes) -> str:
    """Return a path as URLs have it."""
    return urllib.parse.quote(path, safe="/:~!$&'()*+,;=@")
