"""The limits API as the pipeline takes it: its routes and its habits.

Source: spec limits §2.
"""

from __future__ import annotations

import http
from collections.abc import Sequence
from typing import Any

import orjson
from pyramid.response import Response

from placement_core import errors
from placement_core.http import errors as http_errors, media, validation
from placement_core.http.apis import KEYSTONE_ERROR, Api
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import answers, policies, routes
from placement_core.http.operations import Version
from placement_core.http.urls import get_root_url

PREFIX = "/v3"

_SENTENCES = {
    401: "The request you have made requires authentication.",
    404: "The resource could not be found.",
    500: "An unexpected error prevented the server from fulfilling your request.",
}


def _dump_document(status: int, message: str) -> bytes:
    return orjson.dumps({"error": {
        "code": status, "message": message, "title": http.HTTPStatus(status).phrase}})


def _render_document(
    status: int,
    error: errors.Error | http_errors.HTTPError,
    _environ: dict[str, Any],
    _version: Version | None,
) -> Response:
    """Make Keystone's error document."""
    message = str(error) or _SENTENCES.get(status, "")
    if isinstance(error, (validation.InvalidBody, validation.InvalidQuery)):
        message = error.reason
    if isinstance(error, NotAllowed):
        message = (f"You are not authorized to perform the requested action: {error.rule}. "
                   f"{error.needed}").rstrip()
    headers: Sequence[tuple[str, str]] = ()
    if isinstance(error, http_errors.HTTPError):
        headers = error.headers
    body = _dump_document(status, message)
    return Response(
        status=status, app_iter=[body],
        headerlist=[
            ("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])


def _make_401(environ: dict[str, Any]) -> tuple[list[tuple[str, str]], bytes]:
    """Make the 401 of who has no token: it says where to get one."""
    return [
        ("WWW-Authenticate", f'Keystone uri="{get_root_url(environ)}{PREFIX}"'),
        ("Vary", "X-Auth-Token"),
    ], _dump_document(401, _SENTENCES[401])


API = Api(
    name="limits",
    prefix=PREFIX,
    operations=routes.OPERATIONS,
    versions=None,
    render_document=_render_document,
    headers=(("Vary", "X-Auth-Token"),),
    check_media=media.check_leniently,
    error_text=validation.describe_in_one_line,
    every_method=True,
    absolute_links=True,
    public_paths=("", "/auth/tokens"),
    make_401=_make_401,
    rules=policies.RULES,
    error_schema=answers.ERROR,
    schema_of_401=KEYSTONE_ERROR,
)
