"""From a view's ``Reply`` to a response."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import orjson
from pyramid.response import Response
from webob.datetime_utils import serialize_date

from placement_core.http import media, urls
from placement_core.http.conditional import Body
from placement_core.http.operations import NOW, Reply


def render(
    reply: Reply, environ: dict[str, Any], prefix: str, *, cache_headers: bool
) -> Response:
    """Return the response of a reply.

    :param prefix: where the app is mounted.
    :param cache_headers: it may have ``Cache-Control`` and ``Last-Modified``.
    """
    headers: list[tuple[str, str]] = list(reply.headers)
    chunks: list[bytes] = []
    if reply.body is not None:
        body = make_body(reply)
        chunks.append(body.content)
        headers += make_content_headers(body)
    elif reply.events is not None:
        # A proxy would collect them.
        headers += [("Content-Type", media.EVENTS), ("Cache-Control", "no-store"),
                    ("X-Accel-Buffering", "no")]
        return Response(status=reply.status, headerlist=headers, app_iter=reply.events)
    elif reply.status != 204:
        headers.append(("Content-Length", "0"))
    if reply.location is not None:
        headers.append(
            ("Location", f"{urls.get_host_url(environ)}{prefix}{urls.quote_path(reply.location)}"))
    last_modified = reply.last_modified
    if cache_headers and (reply.cacheable or last_modified is not None):
        headers.append(("Cache-Control", "no-cache"))
        if last_modified is not None:
            modified = time.time() if last_modified is NOW else last_modified
            headers.append(("Last-Modified", serialize_date(modified)))
    return Response(status=reply.status, headerlist=headers, app_iter=chunks)


def render_not_modified(headers: list[tuple[str, str]]) -> Response:
    """Return the 304 of a caller that has the answer already."""
    return Response(status=304, headerlist=headers, app_iter=[])


def make_body(reply: Reply) -> Body:
    """Return the body of a reply; what are no bytes, such as a dataclass, becomes JSON."""
    body = reply.body
    return Body(body if isinstance(body, bytes) else dump_json(body), reply.media_type)


def dump_json(body: Any) -> bytes:
    """Return the JSON of anything that JSON can hold, and of dataclasses."""
    try:
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        # It takes no integers beyond 64 bits, which capacities and their sums may be.
        return json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), default=dataclasses.asdict).encode()


def make_content_headers(body: Body) -> list[tuple[str, str]]:
    """Return the content headers of a body."""
    return [("Content-Type", body.media_type), ("Content-Length", str(len(body.content)))]
