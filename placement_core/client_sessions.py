"""Sessions of keystoneauth, for calls to other services.

They tell the other service which trace a call belongs to, and repeat a read whose connection
broke: servers close connections that were idle for a while, and may do so as a request is sent.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import exceptions, session
from keystoneauth1.loading import session as session_loading
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from placement_core import tracing
from placement_core.masking import mask_url

#: It begins the ``User-Agent``.
_APP_NAME = "placement-core"
#: Repeating a request with one of these changes nothing.
_SAFE_METHODS = frozenset({"GET", "HEAD"})


class ClientSession(session.Session):
    """Sends requests to other services, each with a span. Thread-safe."""

    def request(self, url: str, method: str, *args: Any, **keywords: Any) -> Any:
        """Send a request, as keystoneauth does."""
        with tracing.span(method, "CLIENT") as span:
            headers = tracing.make_headers()
            if headers:
                keywords["headers"] = {**(keywords.get("headers") or {}), **headers}
            if span is None:
                return self._request(url, method, *args, **keywords)
            span.set_attribute("http.request.method", method)
            try:
                response = self._request(url, method, *args, **keywords)
            except exceptions.ClientException as error:
                _describe(span, url, getattr(error, "http_status", None))
                raise
            _describe(span, response.url, response.status_code)
            return response

    def _request(self, url: str, method: str, *args: Any, **keywords: Any) -> Any:
        """Send a request; once more, on another connection, if it is safe and the first broke."""
        try:
            return super().request(url, method, *args, **keywords)
        except exceptions.ConnectFailure as error:
            if method not in _SAFE_METHODS or not _broke_off(error):
                raise
        return super().request(url, method, *args, **keywords)


def _broke_off(error: exceptions.ConnectFailure) -> bool:
    """Return whether there was a connection, which ended before an answer.

    Of one that is refused, and of an answer that is late, this is not true.
    """
    # keystoneauth's error has that of requests as context, which wraps one of urllib3, which
    # wraps that of the socket. A refused connection is wrapped otherwise.
    of_urllib3 = error.__context__.args if error.__context__ is not None else ()
    return any(
        isinstance(reason, ConnectionError)
        for each in of_urllib3 if isinstance(each, Exception) for reason in each.args)


def _describe(span: tracing.Span, url: str, status: int | None) -> None:
    """Give a span the attributes of a call.

    :param url: as it was sent; of a call that failed, it may be a path.
    """
    place = urlsplit(url)
    if place.hostname:
        span.set_attribute("url.full", mask_url(url))
        span.set_attribute("server.address", place.hostname)
    if status:
        span.set_attribute("http.response.status_code", status)
        if status >= 400:
            tracing.mark_failed(span, str(status))


class _Loader(session_loading.Session):
    @property
    def plugin_class(self) -> type[session.Session]:
        return ClientSession


def load(
    conf: cfg.ConfigOpts, group: str, auth: BaseAuthPlugin | None
) -> session.Session:
    """Return the session that keystoneauth's options in a group describe.

    :param auth: logs in.
    """
    return _Loader().load_from_conf_options(conf, group, auth=auth, app_name=_APP_NAME)


def load_from_options(**options: Any) -> session.Session:
    """Return the session that options describe, such as ``cacert`` and ``timeout``.

    :param options: those of keystoneauth's loader of sessions.
    """
    made: session.Session = _Loader().load_from_options(**options, app_name=_APP_NAME)
    return made
