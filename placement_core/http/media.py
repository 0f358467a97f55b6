"""What media a request may send, and take: JSON, more or less strictly.

A ``Check`` is told the WSGI environ, whether the operation takes a body, and
whether it can answer nothing but JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webob import acceptparse

from placement_core.http.errors import HTTPError

_JSON = "application/json"

Check = Callable[[dict[str, Any], bool, bool], None]


def check_strictly(environ: dict[str, Any], takes_body: bool, json_only: bool) -> None:
    """Refuse a body that is no JSON (415), a reply that may not be (406)."""
    if takes_body:
        given = environ.get("CONTENT_TYPE") or None
        if given != _JSON:
            bare = _strip_parameters(given)
            if bare != _JSON:
                raise HTTPError(
                    415, f"The media type {bare} is not supported, use application/json")
    if json_only:
        accept = environ.get("HTTP_ACCEPT")
        if accept and accept not in (_JSON, "*/*"):
            header = acceptparse.create_accept_header(accept)
            if not header.acceptable_offers([_JSON]):
                raise HTTPError(406, "Only application/json is provided")


def check_leniently(environ: dict[str, Any], takes_body: bool, _json_only: bool) -> None:
    """Refuse a body that says it is no JSON (400); without a type, it is JSON."""
    given = environ.get("CONTENT_TYPE")
    if takes_body and given and _strip_parameters(given) != _JSON:
        raise HTTPError(
            400, "Expecting to find application/json in Content-Type header. The body must be "
            f"JSON, not {_strip_parameters(given)}.")


def _strip_parameters(media_type: str | None) -> str | None:
    return media_type.partition(";")[0].strip().lower() if media_type else None
