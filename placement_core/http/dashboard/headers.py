"""The headers that keep a browser from doing anything with a page but show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core.http.dashboard import paths

_SECURITY = (
    ("Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
     "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    # With no-referrer, a browser would hide the origin of the forms.
    ("Referrer-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
)
#: Nothing of a page stays in the browser after a log-out.
_UNCACHED = ("Cache-Control", "private, no-store")


class SecurityHeaders:
    """WSGI middleware around everything that may answer for the dashboard, refusals, too."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if not paths.is_below(environ.get("PATH_INFO", "")):
            return self._app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            if not any("immutable" in value for name, value in headers
                       if name == _UNCACHED[0]):
                headers = [(name, value) for name, value in headers if name != _UNCACHED[0]]
                headers.append(_UNCACHED)
            return start_response(status, [*headers, *_SECURITY], *exc_info)

        return self._app(environ, start)
