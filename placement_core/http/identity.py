"""Authentication of callers, before the pipeline, for both strategies.

Each strategy is WSGI middleware that leaves an ``Identity`` in the environ or
answers 401, as the API of the path does. ``/`` (and the empty path) is public, and so are the
paths that an API declares to be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from oslo_config import cfg

from placement_core import errors
from placement_core.context import Identity
from placement_core.http.apis import Api, ApisByPath

LOG = logging.getLogger(__name__)

ENVIRON_KEY = "placement_core.identity"

_ROOT = ("/", "")
#: The options of keystonemiddleware.
_AUTHTOKEN = "keystone_authtoken"
_ANONYMOUS = Identity()


def get_identity(environ: dict[str, Any]) -> Identity:
    """Return the caller as authenticated; an empty identity for public paths."""
    caller: Identity = environ.get(ENVIRON_KEY, _ANONYMOUS)
    return caller


def add_authentication(
    app: WSGIApplication, conf: cfg.ConfigOpts, apis: Sequence[Api]
) -> WSGIApplication:
    """Put the strategy of ``[api] auth_strategy`` before ``app``.

    :param apis: they know their public paths and their 401.
    :raises errors.ConfigurationError: the strategy lacks its options.
    """
    public_paths = PublicPaths(apis)
    if conf.api.auth_strategy == "noauth2":
        return NoAuth(app, public_paths)
    return _add_keystone(app, conf, public_paths, ApisByPath(apis))


class PublicPaths:
    """Which paths need no token, and the 401 of the others."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = ApisByPath(apis)
        public = {f"{api.prefix}{path}" for api in apis for path in api.public_paths}
        self.paths = frozenset([*_ROOT, *public, *(f"{path}/" for path in public)])

    def refuse(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer 401."""
        headers, body = self._apis.find(environ.get("PATH_INFO", "")).make_401(environ)
        start_response("401 Unauthorized", [
            ("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


class NoAuth:
    """Believe the token: ``X-Auth-Token: USER[:PROJECT]``.

    Source: spec placement_api §5, last paragraph.
    """

    def __init__(self, app: WSGIApplication, public_paths: PublicPaths) -> None:
        self.app = app
        self._public_paths = public_paths
        self._public = public_paths.paths

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "") in self._public:
            return self.app(environ, start_response)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if not token:
            return self._public_paths.refuse(environ, start_response)
        user, _, project = token.partition(":")
        roles = environ.get("HTTP_X_ROLES")
        if roles is None:
            roles = "admin" if user == "admin" else ""
        scope = environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE")
        environ[ENVIRON_KEY] = Identity(
            user_id=user,
            project_id=environ.get("HTTP_X_PROJECT_ID") or (None if scope else project or user),
            roles=_split_roles(roles),
            system_scope=scope,
        )
        return self.app(environ, start_response)


class KeystoneIdentity:
    """Read the caller from the headers that keystonemiddleware sets."""

    def __init__(self, app: WSGIApplication, public_paths: PublicPaths) -> None:
        self.app = app
        self._public_paths = public_paths

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        user = environ.get("HTTP_X_USER_ID")
        if not user:
            return self._public_paths.refuse(environ, start_response)
        environ[ENVIRON_KEY] = Identity(
            user_id=user,
            project_id=environ.get("HTTP_X_PROJECT_ID"),
            roles=_split_roles(environ.get("HTTP_X_ROLES", "")),
            system_scope=environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"),
            domain_id=environ.get("HTTP_X_DOMAIN_ID"),
            user_domain_id=environ.get("HTTP_X_USER_DOMAIN_ID"),
            project_domain_id=environ.get("HTTP_X_PROJECT_DOMAIN_ID"),
            user_name=environ.get("HTTP_X_USER_NAME"),
            project_name=environ.get("HTTP_X_PROJECT_NAME"),
        )
        return self.app(environ, start_response)


def _add_keystone(
    app: WSGIApplication, conf: cfg.ConfigOpts, public_paths: PublicPaths, apis: ApisByPath
) -> WSGIApplication:
    # Imported here because it is large and only this strategy needs it.
    from keystoneauth1 import loading

    from placement_core.http.token_validation import TokenValidation

    loading.register_auth_conf_options(conf, _AUTHTOKEN)
    if not (conf[_AUTHTOKEN].auth_type or conf[_AUTHTOKEN].auth_section):
        raise errors.ConfigurationError(
            f"[{_AUTHTOKEN}] auth_type: expected the way this service logs in at "
            "Keystone, such as password, because [api] auth_strategy = keystone")
    try:
        validating: WSGIApplication = TokenValidation(
            KeystoneIdentity(app, public_paths), conf, apis)
    except Exception as error:
        raise errors.ConfigurationError(
            f"[{_AUTHTOKEN}]: {' '.join(str(error).split())}") from error
    if conf[_AUTHTOKEN].token_cache_time == 0:
        # The middleware hands it to its cache, which takes it for no bound.
        LOG.warning(
            "[%s] token_cache_time = 0: tokens are trusted until they expire, even if they are "
            "revoked; -1 validates each of them with each request", _AUTHTOKEN)
    public = public_paths.paths

    def unless_public(
        environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") in public:
            return app(environ, start_response)
        return validating(environ, start_response)

    return unless_public


def _split_roles(roles: str) -> tuple[str, ...]:
    return tuple(role.strip() for role in roles.split(",") if role.strip())
