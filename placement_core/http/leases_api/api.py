"""The definition of the reservation API: its routes and conventions.

Source: spec blazar §2.
"""

from __future__ import annotations

import http
from collections.abc import Sequence
from typing import Any

import orjson
from pyramid.response import Response

from placement_core import errors
from placement_core.http import errors as http_errors, validation
from placement_core.http.apis import Api
from placement_core.http.leases_api import answers, policies, routes
from placement_core.http.operations import ONLY, Version
from placement_core.http.versions import Versions

PREFIX = "/v1"


def _render_document(
    status: int,
    error: errors.Error | http_errors.HTTPError,
    _environ: dict[str, Any],
    _version: Version | None,
) -> Response:
    """Build the error document; if the request reached an operation, with the error's code."""
    message = str(error) or f"{http.HTTPStatus(status).phrase}."
    if isinstance(error, (validation.InvalidBody, validation.InvalidQuery)):
        message = error.reason
    headers: Sequence[tuple[str, str]] = ()
    if isinstance(error, http_errors.HTTPError):
        headers = error.headers
    if _is_malformed(error):
        document = {"error": status, "error_message": message}
    else:
        document = {
            "error_code": status, "error_message": message, "error_name": _get_name(error)}
    body = orjson.dumps(document)
    return Response(
        status=status, app_iter=[body],
        headerlist=[
            ("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])


def _is_malformed(error: errors.Error | http_errors.HTTPError) -> bool:
    """Return whether a request was refused before it reached an operation."""
    return isinstance(error, (http_errors.HTTPError, validation.MalformedBody)) or (
        type(error) in (errors.Error, errors.NotFound, errors.Invalid))


def _get_name(error: errors.Error | http_errors.HTTPError) -> str:
    if isinstance(error, http_errors.NotAllowed):
        return "reservations.not_allowed"
    if error.code == errors.Error.code:
        return "reservations.invalid"
    return error.code


def _make_401(_environ: dict[str, Any]) -> tuple[list[tuple[str, str]], bytes]:
    """Build the headers and body of a 401 for requests without a token."""
    return [], orjson.dumps({
        "error": 401, "error_message": "The request you have made requires authentication."})


API = Api(
    name="reservation",
    prefix=PREFIX,
    operations=routes.OPERATIONS,
    versions=Versions("reservation", lowest=ONLY, newest=ONLY, default=ONLY),
    render_document=_render_document,
    error_text=validation.describe_in_one_line,
    answers_head=True,
    json_suffix=True,
    absolute_links=True,
    public_paths=("", "/", "/versions"),
    make_401=_make_401,
    rules=policies.RULES,
    error_schema=answers.ERROR,
    schema_of_401=answers.ERROR_BEFORE,
)
