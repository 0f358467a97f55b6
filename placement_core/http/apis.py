"""What an API is: a tree of routes, with the conventions that all of them share.

Several APIs share one service; the prefix of a path determines the API of a request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from oslo_policy import policy
from pyramid.response import Response

from placement_core import errors
from placement_core.http import errors as http_errors, media, validation
from placement_core.http.json_schemas import INTEGER, TEXT, Schema, record
from placement_core.http.operations import ONLY, Ladder, Operation, Version
from placement_core.http.versions import Versions

#: Makes the 401 of a request without a valid token from its WSGI environ: (headers beside the
#: content type and length, JSON).
Make401 = Callable[[dict[str, Any]], tuple[list[tuple[str, str]], bytes]]

#: An error of Keystone; its middleware refuses tokens with it, whichever API is called.
KEYSTONE_ERROR = record({"error": record({"code": INTEGER, "message": TEXT, "title": TEXT})})

_MESSAGE = orjson.dumps({
    "message": "The request needs a valid token in the header X-Auth-Token.",
    "code": "401 Unauthorized",
    "title": "Unauthorized",
})


def make_placement_401(_environ: dict[str, Any]) -> tuple[list[tuple[str, str]], bytes]:
    """Make the 401 of the Placement API."""
    return [], _MESSAGE


#: What ``make_placement_401`` makes.
PLACEMENT_401 = record({"message": TEXT, "code": TEXT, "title": TEXT})

_ANY_ERROR: Ladder[Schema] = Ladder({ONLY: {"type": "object"}})


@dataclasses.dataclass(frozen=True)
class Api:
    """One tree of routes, with the conventions that all of them share.

    :ivar name: its label in metrics.
    :ivar prefix: what the paths of its operations begin with, such as
        ``/capacity/v1``; empty for the API that has every path no other one has.
    :ivar versions: None for an API without microversions.
    :ivar render_document: makes the error document.
    :ivar cache_headers_since: the first microversion whose replies may carry
        ``Cache-Control`` and ``Last-Modified``.
    :ivar headers: headers of every reply of an API without microversions.
    :ivar check_media: refuses a body that is not JSON, or an ``Accept`` without JSON.
    :ivar error_text: describes what is wrong with a body or a query string.
    :ivar answers_head: HEAD is answered wherever GET is.
    :ivar every_method: HEAD is answered wherever GET is, OPTIONS everywhere, and
        a path may end with a slash; only for an API without microversions.
    :ivar json_suffix: a path may end with ``.json``, which asks for JSON.
    :ivar absolute_links: links are URLs, not paths.
    :ivar public_paths: below ``prefix``; they need no token.
    :ivar make_401: makes the answer to a request without a token.
    :ivar in_openapi: the OpenAPI document describes it.
    :ivar error_schema: JSON schema of what ``render_document`` makes, by microversion.
    :ivar schema_of_401: JSON schema of what ``make_401`` makes.
    :ivar rules: the policy rules that its operations name, with their defaults.
    """

    name: str
    prefix: str
    operations: Sequence[Operation]
    versions: Versions | None
    render_document: http_errors.RenderDocument
    cache_headers_since: Version = ONLY
    headers: tuple[tuple[str, str], ...] = ()
    check_media: media.MediaCheck = media.check_strictly
    error_text: validation.ErrorText = str
    answers_head: bool = False
    every_method: bool = False
    json_suffix: bool = False
    absolute_links: bool = False
    public_paths: tuple[str, ...] = ()
    make_401: Make401 = make_placement_401
    rules: Sequence[policy.RuleDefault] = ()
    in_openapi: bool = True
    error_schema: Ladder[Schema] = _ANY_ERROR
    schema_of_401: Schema = dataclasses.field(default_factory=lambda: PLACEMENT_401)

    def render_refusal(
        self, error: errors.Error | http_errors.HTTPError, environ: dict[str, Any]
    ) -> Response:
        """Render what middleware refuses before anything has read the microversion.

        Clients read such an error like any other of the version that they ask for.
        """
        return http_errors.render_error(
            self.render_document, error, environ, self._find_version(environ))

    def _find_version(self, environ: dict[str, Any]) -> Version | None:
        """Return the microversion that a request asks for; None if it is not offered."""
        if self.versions is None:
            return None
        try:
            return self.versions.get_requested(environ)
        except http_errors.HTTPError:
            return None


class ApisByPath:
    """The APIs of a service, each with the paths that begin with its prefix."""

    def __init__(self, apis: Sequence[Api]) -> None:
        longest_first = sorted(apis, key=lambda api: len(api.prefix), reverse=True)
        self._apis = [(f"{api.prefix}/", api) for api in longest_first]

    def find(self, path: str) -> Api:
        """Return the API whose prefix of a path is the longest.

        A path that begins with none of them is refused by the API with the shortest prefix.
        """
        path = f"{path}/"
        for prefix, api in self._apis:  # noqa: B007
            if path.startswith(prefix):
                break
        return api
