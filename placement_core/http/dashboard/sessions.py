"""Who opens a page in a browser, which sends no token by itself.

With Keystone, a cookie has the token of a session. It counts for reading the dashboard and for
nothing else, so that no other site can make a browser act through it. With noauth2, who sends no
token is the user admin, as in the examples of the documents.
"""

from __future__ import annotations

import http.cookies
import urllib.parse
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from oslo_config import cfg

from placement_core import errors
from placement_core.http import errors as http_errors, request_bodies, requestlog, urls
from placement_core.http.dashboard import paths, rendering
from placement_core.http.dashboard.login import Credentials, IdentityService, LoginRefused
from placement_core.http.errors import HTTPError
from placement_core.http.operations import RECORD_BODY

COOKIE = "placement_dashboard"

_TOKEN = "HTTP_X_AUTH_TOKEN"  # noqa: S105
_READS = ("GET", "HEAD")
_FORM = "application/x-www-form-urlencoded"
#: Fields of the form, and then some.
_MOST_FIELDS = 20


def add_sessions(
    app: WSGIApplication, conf: cfg.ConfigOpts, render_error: http_errors.RenderDocument
) -> WSGIApplication:
    """Put what knows people before the authentication of ``app``.

    :raises errors.ConfigurationError: it is not known where Keystone is.
    """
    if conf.api.auth_strategy == "noauth2":
        return _LocalAdministrator(app)
    return Sessions(app, IdentityService(conf), render_error)


class _LocalAdministrator:
    """WSGI middleware: who sends no token to the dashboard is the user admin."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if paths.is_below(environ.get("PATH_INFO", "")):
            environ.setdefault(_TOKEN, "admin")
        return self._app(environ, start_response)


class Sessions:
    """WSGI middleware: who has no valid token is sent to the login, and gets a cookie there."""

    def __init__(
        self, app: WSGIApplication, service: IdentityService,
        render_error: http_errors.RenderDocument,
    ) -> None:
        self._app = app
        self._service = service
        self._render_error = render_error

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "").rstrip("/")
        if not paths.is_below(path):
            return self._app(environ, start_response)
        if path in (paths.LOGIN, paths.LOGOUT):
            return self._answer(path, environ)(environ, start_response)
        if environ["REQUEST_METHOD"] not in _READS:
            return self._app(environ, start_response)
        token = _read_cookie(environ)
        if token:
            environ.setdefault(_TOKEN, token)
        return self._read(environ, start_response)

    def _read(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer a read; if the caller is not known, send them to the login."""
        unknown = False

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal unknown
            unknown = status.startswith("401")
            return None if unknown else start_response(status, headers, *exc_info)

        chunks = self._app(environ, start)
        if not unknown:
            return chunks
        address = f"{urls.get_mount_path(environ)}{urls.quote_path(_get_path(environ))}"
        query = environ.get("QUERY_STRING")
        next_ = f"{address}?{query}" if query else address
        return _redirect(environ, start_response, rendering.make_url(
            urls.get_mount_path(environ), "/login", {"next": next_}))

    def _answer(self, path: str, environ: dict[str, Any]) -> WSGIApplication:
        method = environ["REQUEST_METHOD"]
        allowed = [*_READS, "POST"] if path == paths.LOGIN else ["POST"]
        try:
            if method not in allowed:
                raise http_errors.method_not_allowed(method, allowed)
            environ[requestlog.OPERATION_KEY] = "dashboard", f"{method} {path}"
            if method in _READS:
                return _show_form(environ, _parse(environ.get("QUERY_STRING", "")))
            _check_origin(environ)
            return self._log_in(environ) if path == paths.LOGIN else self._log_out(environ)
        except (HTTPError, errors.Error) as error:
            response: WSGIApplication = http_errors.render_error(
                self._render_error, error, environ, None)
        return response

    def _log_in(self, environ: dict[str, Any]) -> WSGIApplication:
        fields = _read_form(environ)
        try:
            token = self._service.log_in(Credentials.parse(fields))
        except LoginRefused as error:
            environ[requestlog.ERROR_CODE_KEY] = error.code
            return _show_form(environ, fields, problem=error)

        def answer(
            environ: dict[str, Any], start_response: StartResponse
        ) -> Iterable[bytes]:
            return _redirect(
                environ, start_response, _choose_next(environ, fields.get("next", "")),
                _make_cookie(environ, token))

        return answer

    def _log_out(self, environ: dict[str, Any]) -> WSGIApplication:
        token = _read_cookie(environ)
        ended = _make_cookie(environ, "")
        try:
            if token:
                self._service.log_out(token)
        except errors.Unavailable as error:
            # Whoever leaves is logged out here at least.
            response = http_errors.render_error(self._render_error, error, environ, None)
            response.headerlist.append(ended)
            return response  # type: ignore[no-any-return]

        def answer(
            environ: dict[str, Any], start_response: StartResponse
        ) -> Iterable[bytes]:
            login = rendering.make_url(urls.get_mount_path(environ), "/login", {})
            return _redirect(environ, start_response, login, ended)

        return answer


def _show_form(
    environ: dict[str, Any], fields: dict[str, str], problem: LoginRefused | None = None
) -> WSGIApplication:
    """Return the login page, with what was typed but the secrets."""
    response: WSGIApplication = rendering.respond(
        environ, "login.html", title="Log in", status=200 if problem is None else problem.status,
        fields=fields, problem=problem, next_address=_choose_next(environ, fields.get("next", "")))
    return response


def _choose_next(environ: dict[str, Any], address: str) -> str:
    """Return where to go after the login: within the dashboard, whatever the link said."""
    home = f"{urls.get_mount_path(environ)}{paths.PREFIX}"
    below = address.removeprefix(home)
    is_safe = (
        address.startswith(home) and below[:1] in ("", "/", "?") and address.isascii()
        and address.isprintable() and "\\" not in address and " " not in address
        and ".." not in urllib.parse.unquote(below.partition("?")[0]))
    login = f"{urls.get_mount_path(environ)}{paths.LOGIN}"
    return address if is_safe and not address.startswith(login) else home


def _check_origin(environ: dict[str, Any]) -> None:
    """Refuse a form that another site sent: browsers say from which one it comes.

    The host is compared and not the scheme, which a proxy that ends TLS may not tell.
    """
    origin = urllib.parse.urlsplit(environ.get("HTTP_ORIGIN", "")).netloc
    if not origin or origin.lower() != environ.get("HTTP_HOST", "").lower():
        raise HTTPError(
            403, "This form was not sent from a page of this service: the header Origin does not "
            "name its host.")


def _is_secure(environ: dict[str, Any]) -> bool:
    """Say whether the browser speaks TLS, which a proxy may end."""
    origin: str = environ.get("HTTP_ORIGIN", "")
    return bool(environ["wsgi.url_scheme"] == "https") or origin.startswith("https:")


def _read_form(environ: dict[str, Any]) -> dict[str, str]:
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPError(415, f"The form is sent as {_FORM}.")
    length = environ.get("CONTENT_LENGTH", "")
    if length and not (length.isascii() and length.isdigit()):
        raise HTTPError(400, "content-length header must be an integer")
    try:
        return _parse(request_bodies.read(environ, RECORD_BODY).decode("ascii"))
    except UnicodeDecodeError as error:
        raise HTTPError(400, "The form is not percent-encoded.") from error


def _parse(text: str) -> dict[str, str]:
    """Return the fields of a form or a query string; of a repeated one, the last value."""
    try:
        return dict(urllib.parse.parse_qsl(
            text, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError as error:
        raise HTTPError(400, "The fields of the form cannot be read.") from error


def _read_cookie(environ: dict[str, Any]) -> str | None:
    # Other applications of the host may have cookies at which SimpleCookie gives up.
    own_cookies = ";".join(
        pair for pair in environ.get("HTTP_COOKIE", "").split(";")
        if pair.partition("=")[0].strip() == COOKIE)
    try:
        morsel = http.cookies.SimpleCookie(own_cookies).get(COOKIE)
    except http.cookies.CookieError:
        return None
    return morsel.value if morsel is not None else None


def _make_cookie(environ: dict[str, Any], token: str) -> tuple[str, str]:
    """Return the header that sets the cookie of a session; that ends it, without a token."""
    cookie: http.cookies.SimpleCookie = http.cookies.SimpleCookie({COOKIE: token})
    morsel = cookie[COOKIE]
    morsel["path"] = f"{urls.get_mount_path(environ)}{paths.PREFIX}"
    morsel["httponly"] = True
    morsel["samesite"] = "Strict"
    if _is_secure(environ):
        morsel["secure"] = True
    if not token:
        morsel["max-age"] = 0
    return "Set-Cookie", morsel.OutputString()


def _redirect(
    environ: dict[str, Any], start_response: StartResponse, address: str,
    *headers: tuple[str, str],
) -> Iterable[bytes]:
    start_response("303 See Other", [
        ("Location", address), ("Content-Length", "0"), *headers])
    return []


def _get_path(environ: dict[str, Any]) -> bytes:
    path: str = environ.get("PATH_INFO", "")
    return path.encode("latin-1")
