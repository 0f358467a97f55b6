"""Answers 500 where middleware fails, as the tween does where an operation fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors
from placement_core.http import requestlog
from placement_core.http.apis import ApisByPath

LOG = logging.getLogger(__name__)


class UnexpectedErrors:
    """WSGI middleware that answers what none behind it did: a server knows no request ids.

    An error after an answer was begun is left to the server, which knows what it has sent.

    :param apis: have the renderer of the error.
    """

    def __init__(self, app: WSGIApplication, apis: ApisByPath) -> None:
        self._app = app
        self._apis = apis

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        begun = False

        def note_begin(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal begun
            begun = True
            return start_response(status, headers, *exc_info)

        try:
            return self._app(environ, note_begin)
        except Exception:
            if begun:
                raise
            LOG.exception("request %s failed", environ.get(requestlog.ENVIRON_KEY))
        # Not the text of the exception: it may hold internals.
        api = self._apis.find(environ.get("PATH_INFO", ""))
        response: WSGIApplication = api.render_refusal(errors.Error(), environ)
        return response(environ, start_response)
