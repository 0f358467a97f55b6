"""``noauth2`` is for callers on this machine, whichever server hosts the application.

``serve`` knows where it listens; gunicorn, uWSGI and mod_wsgi do not tell. So each request
is checked: its remote address has to be a loopback address, and no header may tell of a proxy.
A caller on a Unix socket has no address: it is a proxy as a rule.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors

if TYPE_CHECKING:
    # ``serve`` uses ``is_loopback`` without loading the APIs.
    from placement_core.http.apis import ApisByPath

LOG = logging.getLogger(__name__)

#: What proxies add to requests.
_PROXIED = tuple(f"HTTP_{name}" for name in (
    "FORWARDED", "VIA", "X_FORWARDED_FOR", "X_FORWARDED_HOST", "X_FORWARDED_PROTO",
    "X_FORWARDED_PREFIX", "X_REAL_IP"))


class RemoteCaller(errors.Forbidden):
    """A caller that is not on this machine, or behind a proxy, where every token is believed."""

    code = "placement.auth.remote"

    def __init__(self) -> None:
        super().__init__(
            "[api] auth_strategy = noauth2 believes whatever a caller says, so that only "
            "callers on the machine itself are answered, and no proxies: use keystone, or set "
            "[api] allow_remote_noauth2.")


class LocalCallers:
    """WSGI middleware that serves callers on this machine only."""

    def __init__(self, app: WSGIApplication, apis: ApisByPath) -> None:
        """Make it.

        :param apis: have the renderer of a refusal.
        """
        self._app = app
        self._apis = apis
        self._logged = False

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if is_local(environ):
            return self._app(environ, start_response)
        error = RemoteCaller()
        if not self._logged:
            self._logged = True
            LOG.warning("refused a caller at %s: %s",
                        environ.get("REMOTE_ADDR") or "an unknown address", error)
        api = self._apis.find(environ.get("PATH_INFO", ""))
        response: WSGIApplication = api.render_refusal(error, environ)
        return response(environ, start_response)


def is_local(environ: dict[str, Any]) -> bool:
    """Say whether a request comes from this machine, and from no proxy on it."""
    return not any(name in environ for name in _PROXIED) and (
        is_loopback(environ.get("REMOTE_ADDR") or ""))


# The same few callers ask again and again, and reading an address takes long.
@functools.lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Say whether an address is a loopback address, or ``localhost``."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
