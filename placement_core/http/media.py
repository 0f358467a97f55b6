"""Which media types a request may send and accept: JSON, more or less strictly.

A ``MediaCheck`` takes the WSGI environ, whether the operation takes a body, and whether it
answers JSON only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webob import acceptparse

from placement_core.http.errors import HTTPError
from placement_core.http.operations import JSON

#: The media type of streams of events.
EVENTS = "text/event-stream"

MediaCheck = Callable[[dict[str, Any], bool, bool], None]


def check_strictly(environ: dict[str, Any], takes_body: bool, json_only: bool) -> None:
    """Refuse a body that is not JSON (415), and an ``Accept`` without JSON (406)."""
    if takes_body:
        content_type = environ.get("CONTENT_TYPE") or None
        if content_type != JSON:
            media_type = _strip_parameters(content_type)
            if media_type != JSON:
                raise HTTPError(
                    415, f"The media type {media_type} is not supported, use application/json")
    if json_only:
        accept = environ.get("HTTP_ACCEPT")
        if accept and accept not in (JSON, "*/*"):
            header = acceptparse.create_accept_header(accept)
            if not header.acceptable_offers([JSON]):
                raise HTTPError(406, "Only application/json is provided")


def check_leniently(environ: dict[str, Any], takes_body: bool, _json_only: bool) -> None:
    """Refuse a body of another media type than JSON (400); without a type, it is JSON."""
    content_type = environ.get("CONTENT_TYPE")
    if takes_body and content_type and _strip_parameters(content_type) != JSON:
        raise HTTPError(
            400, "Expecting to find application/json in Content-Type header. The body must be "
            f"JSON, not {_strip_parameters(content_type)}.")


def accepts_events(environ: dict[str, Any]) -> bool:
    """Return whether a caller would rather have events than JSON (``text/event-stream``)."""
    accept = environ.get("HTTP_ACCEPT", "")
    if EVENTS not in accept.lower():
        return False
    header = acceptparse.create_accept_header(accept)
    [(best, _), *_] = header.acceptable_offers([EVENTS, JSON]) or [(None, 0)]
    return bool(best == EVENTS)


def _strip_parameters(content_type: str | None) -> str | None:
    return content_type.partition(";")[0].strip().lower() if content_type else None
