"""Who is calling: authentication before the pipeline, for both strategies.

Each strategy is WSGI middleware that leaves an ``Identity`` in the environ or
answers 401. ``/`` (and the empty path) is for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from oslo_config import cfg

from placement_core import errors
from placement_core.context import Identity

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

ENVIRON_KEY = "placement_core.identity"

_PUBLIC_PATHS = ("/", "")
_NOBODY = Identity()
_UNAUTHORIZED = orjson.dumps({
    "message": "The request needs a valid token in the header X-Auth-Token.",
    "code": "401 Unauthorized",
    "title": "Unauthorized",
})


def of(environ: dict[str, Any]) -> Identity:
    """Return the caller that authentication found; nobody for public paths."""
    return environ.get(ENVIRON_KEY, _NOBODY)


def authenticated(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Put the strategy of ``[api] auth_strategy`` before ``app``.

    :raises errors.ConfigurationError: the strategy lacks its options.
    """
    if conf.api.auth_strategy == "noauth2":
        return NoAuth(app)
    return _keystone(app, conf)


class NoAuth:
    """Believe the token: ``X-Auth-Token: USER[:PROJECT]``.

    Source: spec placement_api §5, last paragraph.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self.app = app

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "") in _PUBLIC_PATHS:
            return self.app(environ, start_response)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if not token:
            return _refuse(start_response)
        user, _, project = token.partition(":")
        roles = environ.get("HTTP_X_ROLES")
        if roles is None:
            roles = "admin" if user == "admin" else ""
        scope = environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE")
        environ[ENVIRON_KEY] = Identity(
            user_id=user,
            project_id=environ.get("HTTP_X_PROJECT_ID") or (None if scope else project or user),
            roles=_split(roles),
            system_scope=scope,
        )
        return self.app(environ, start_response)


class KeystoneIdentity:
    """Read the caller from the headers that keystonemiddleware sets."""

    def __init__(self, app: WSGIApplication) -> None:
        self.app = app

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        user = environ.get("HTTP_X_USER_ID")
        if not user:
            return _refuse(start_response)
        environ[ENVIRON_KEY] = Identity(
            user_id=user,
            project_id=environ.get("HTTP_X_PROJECT_ID"),
            roles=_split(environ.get("HTTP_X_ROLES", "")),
            system_scope=environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"),
            domain_id=environ.get("HTTP_X_DOMAIN_ID"),
            user_domain_id=environ.get("HTTP_X_USER_DOMAIN_ID"),
            project_domain_id=environ.get("HTTP_X_PROJECT_DOMAIN_ID"),
        )
        return self.app(environ, start_response)


def _keystone(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    # Imported here because it is large and only this strategy needs it.
    from keystonemiddleware import auth_token

    try:
        validating = auth_token.AuthProtocol(
            KeystoneIdentity(app), {"oslo_config_config": conf})
    except Exception as error:
        raise errors.ConfigurationError(
            f"[keystone_authtoken]: {' '.join(str(error).split())}") from error
    group = conf.keystone_authtoken
    if not (group.auth_type or group.auth_section):
        raise errors.ConfigurationError(
            "[keystone_authtoken] auth_type: expected the way this service logs in at "
            "Keystone, such as password, because [api] auth_strategy = keystone")

    def unless_public(
        environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") in _PUBLIC_PATHS:
            return app(environ, start_response)
        return validating(environ, start_response)

    return unless_public


def _split(roles: str) -> tuple[str, ...]:
    return tuple(role.strip() for role in roles.split(",") if role.strip())


def _refuse(start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("401 Unauthorized", [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(_UNAUTHORIZED))),
    ])
    return [_UNAUTHORIZED]
