"""Responses of errors: the only module that maps categories of errors to statuses.

Each API renders its error documents (``RenderDocument``); ``render_document`` renders those of
the Placement API, which other APIs may use too.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson
from pyramid.response import Response
from webob import acceptparse, exc

from placement_core import errors
from placement_core.db import failures
from placement_core.db.availability import Away
from placement_core.http import requestlog
from placement_core.http.operations import Version

LOG = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[errors.Error], int], ...] = (
    (errors.NotFound, 404),
    (errors.Invalid, 400),
    (errors.Conflict, 409),
    (errors.Gone, 410),
    (errors.Forbidden, 403),
    (errors.OverLimit, 403),
    (errors.Unavailable, 503),
)

_MEDIA_TYPES = ("application/json", "text/html", "text/plain")


class HTTPError(Exception):
    """A malformed request, which is refused before it reaches the domain.

    :param message: what is wrong with it.
    :param headers: further headers of the response.
    :param members: further members of the error object.
    """

    code = errors.Error.code

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        headers: Sequence[tuple[str, str]] = (),
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.members = members or {}


class NotAllowed(errors.Forbidden):
    """The policy does not let this caller do that.

    :ivar rule: the rule's name.
    :ivar needed: a sentence that says which role would do; empty: not known.
    """

    def __init__(self, rule: str, message: str = "") -> None:
        super().__init__(message or f"Policy does not allow {rule} to be performed.")
        self.rule = rule
        self.needed = ""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.needed}".rstrip()


#: Renders (status, error, WSGI environ, microversion); the microversion is None if the
#: request has no valid one.
RenderDocument = Callable[[int, errors.Error | HTTPError, dict[str, Any], Version | None],
                          Response]


def method_not_allowed(method: str, allowed: Sequence[str]) -> HTTPError:
    """Return the 405 of a path that has other methods."""
    return HTTPError(
        405,
        f"The method {method} is not allowed for this resource.",
        headers=[("Allow", ", ".join(allowed))],
    )


def get_status(error: errors.Error) -> int:
    """Return the status of the category that ``error`` belongs to; 500 if none."""
    for category, status in _STATUSES:
        if isinstance(error, category):
            return status
    return 500


def render_error(
    render_document: RenderDocument, error: errors.Error | HTTPError, environ: dict[str, Any],
    version: Version | None
) -> Response:
    """Render an error, note what it is, and log ``Unavailable`` in one line."""
    environ[requestlog.ERROR_CODE_KEY] = error.code
    environ[requestlog.ERROR_TEXT_KEY] = str(error)
    status = error.status if isinstance(error, HTTPError) else get_status(error)
    response = render_document(status, error, environ, version)
    if isinstance(error, errors.Unavailable):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
        # The database room logs an outage once instead of for each request.
        if not isinstance(error, Away):
            cause = f": {failures.describe_error(error)}" if error.__cause__ is not None else ""
            LOG.warning("request %s is answered 503: %s%s",
                        environ.get(requestlog.ENVIRON_KEY), error, cause)
    return response


def render_document(
    status: int, error: errors.Error | HTTPError, environ: dict[str, Any], *, coded: bool,
    members: Mapping[str, Any] = MappingProxyType({}),
) -> Response:
    """Render an error as JSON, or as the caller's ``Accept`` requires.

    :param coded: show the error's code.
    :param members: further members of the error object.
    Source: spec placement_api §1.3; as WebOb does, line breaks of a message become blanks,
    because clients take the text after the last one for the reason.
    """
    message = str(error).replace("\n", " ").replace("\r", "")
    http_exception = exc.status_map[status]
    sentence = message if status == 405 else http_exception.explanation
    media_type = _choose_media_type(environ.get("HTTP_ACCEPT"))
    headers: Sequence[tuple[str, str]] = ()
    if isinstance(error, HTTPError):
        headers, members = error.headers, error.members
    if media_type == "application/json":
        document = {
            "status": status,
            "title": http_exception.title,
            "detail": f"{sentence}\n\n {'' if sentence is message else message}  ",
            "request_id": environ.get(requestlog.ENVIRON_KEY, ""),
            **members,
        }
        if coded:
            document["code"] = error.code
        body = orjson.dumps({"errors": [document]})
    else:
        body = _render_page(
            media_type, f"{status} {http_exception.title}", sentence, message)
    content_type = (
        media_type if media_type == "application/json" else f"{media_type}; charset=UTF-8")
    return Response(
        status=status,
        app_iter=[body],
        headerlist=[
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            *headers,
        ],
    )


def _choose_media_type(accept: str | None) -> str:
    """Return the media type of an error: JSON unless the caller excludes it."""
    if not accept:
        return _MEDIA_TYPES[0]
    acceptable = acceptparse.create_accept_header(accept).acceptable_offers(_MEDIA_TYPES)
    names = [name for name, _quality in acceptable]
    return _MEDIA_TYPES[0] if not names or _MEDIA_TYPES[0] in names else names[0]


def _render_page(media_type: str, title: str, sentence: str, message: str) -> bytes:
    paragraphs = [sentence] if sentence == message else [sentence, message]
    if media_type == "text/plain":
        return "\n\n".join([title, *paragraphs, ""]).encode()
    title = html.escape(title)
    text = "".join(f"<p>{html.escape(paragraph)}</p>\n" for paragraph in paragraphs)
    return (
        f"<!DOCTYPE html>\n<html><head><title>{title}</title></head>\n"
        f"<body><h1>{title}</h1>\n{text}</body></html>\n"
    ).encode()
