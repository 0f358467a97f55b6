"""keystonemiddleware, with the errors of our APIs while Keystone does not answer."""

from __future__ import annotations

import logging
from typing import Any

from keystoneauth1 import exceptions, session
from keystonemiddleware import auth_token
from oslo_config import cfg
from webob import exc

from placement_core import client_sessions, errors
from placement_core.http.apis import ApisByPath

LOG = logging.getLogger(__name__)

#: How long an answer of Keystone may take, unless ``http_connect_timeout`` says so. Without any
#: bound, a Keystone that falls silent would occupy every thread.
TIMEOUT_SECONDS = 10


class KeystoneAway(errors.Unavailable):
    """Keystone does not answer, so that something cannot be done now."""

    code = "placement.auth.unavailable"

    def __init__(
        self, task: str = "validate the token", advice: str = "please try again"
    ) -> None:
        super().__init__(f"Keystone cannot {task} now; {advice}.")


class TokenValidation(auth_token.AuthProtocol):  # type: ignore[misc]  # it has no types
    """WSGI middleware that lets requests with good tokens through.

    Its 401 is Keystone's error document, and says where to log in.

    :param conf: has ``[keystone_authtoken]``.
    :param apis: have the renderer of the 503 while Keystone does not answer.
    """

    def __init__(self, app: Any, conf: cfg.ConfigOpts, apis: ApisByPath) -> None:
        self._authtoken = conf.keystone_authtoken
        self._apis = apis
        super().__init__(app, {"oslo_config_config": conf})

    def process_request(self, request: Any) -> Any:
        """Return a refusal; None: the request may go on."""
        try:
            return super().process_request(request)
        # The middleware lets some errors through, such as those of TLS.
        except (exc.HTTPServiceUnavailable, exceptions.ClientException) as error:
            away = KeystoneAway()
            away.__cause__ = error.__context__ or error
        except exc.HTTPException:
            raise
        # It takes every 200 for Keystone's, and a proxy may answer with another document.
        except Exception as error:
            LOG.exception("the token of a request could not be validated")
            away = KeystoneAway()
            away.__cause__ = error
        api = self._apis.find(request.environ.get("PATH_INFO", ""))
        return api.render_refusal(away, request.environ)

    def _create_session(self, **_options: Any) -> session.Session:
        """Return a session that tells Keystone of the trace of a request, and has a timeout.

        The middleware has no option for the first, and no default for the second.
        """
        options = self._authtoken
        return client_sessions.load_from_options(
            insecure=options.insecure, cacert=options.cafile, cert=options.certfile,
            key=options.keyfile, timeout=options.http_connect_timeout or TIMEOUT_SECONDS)
