"""Sessions of keystoneauth that tell other services which trace a call belongs to."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import session
from keystoneauth1.loading import session as session_loading
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from placement_core import trace_context


class ClientSession(session.Session):
    """Sends requests to other services. Thread-safe."""

    def request(self, url: str, method: str, *args: Any, **keywords: Any) -> Any:
        """Send a request, as keystoneauth does."""
        headers = trace_context.make_headers()
        if headers:
            keywords["headers"] = {**(keywords.get("headers") or {}), **headers}
        return super().request(url, method, *args, **keywords)


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
    return _Loader().load_from_conf_options(conf, group, auth=auth, app_name="placement-core")
