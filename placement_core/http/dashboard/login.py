"""Logging in at Keystone, for a token that a browser keeps; and logging out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.identity import v3
from oslo_config import cfg

from placement_core import client_sessions, errors
from placement_core.http.token_validation import TIMEOUT_SECONDS, KeystoneAway

_GROUP = "keystone_authtoken"
#: Keystone's domain of those who know no other.
_DEFAULT_DOMAIN = "Default"


class LoginRefused(errors.Forbidden):
    """Keystone did not let somebody in, or a field of the form is empty.

    :ivar field: the field of the form that the message is about; None: all of it.
    :ivar status: that of the answer.
    """

    code = "placement.dashboard.login_refused"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.status = 400 if field else 401


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """What somebody logs in with: a password, or an application credential.

    :ivar application: the name is the id of an application credential, whose secret the
        password is; the domain and the project are those of the credential.
    """

    name: str
    password: str = dataclasses.field(repr=False)
    domain: str = _DEFAULT_DOMAIN
    project: str = ""
    project_domain: str = _DEFAULT_DOMAIN
    application: bool = False

    @classmethod
    def parse(cls, fields: Mapping[str, str]) -> Credentials:
        """Return the credentials in the fields of a form.

        :raises LoginRefused: one of them is missing.
        """
        application = fields.get("method") == "application_credential"
        names = {
            "credential": "the id of the application credential",
            "secret": "the secret of the application credential",
        } if application else {
            "user": "the name of the user", "password": "the password",
            "project": "the name of the project"}
        for field, text in names.items():
            if not fields.get(field):
                raise LoginRefused(f"Please enter {text}.", field)
        if application:
            return cls(fields["credential"], fields["secret"], application=True)
        domain = fields.get("domain") or _DEFAULT_DOMAIN
        return cls(fields["user"], fields["password"], domain, fields["project"],
                   fields.get("project_domain") or domain)


class IdentityService:
    """Keystone, as ``[keystone_authtoken]`` names it. Thread-safe.

    Who tries many passwords is up to Keystone (``[security_compliance]
    lockout_failure_attempts``).

    :raises errors.ConfigurationError: it is not known where Keystone is.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf[_GROUP]
        plugin: Any = loading.load_auth_from_conf_options(conf, _GROUP)
        url = getattr(plugin, "auth_url", None) or options.www_authenticate_uri
        if not url:
            raise errors.ConfigurationError(
                f"[{_GROUP}] auth_url: expected the URL of Keystone, where people log in, because "
                "[dashboard] enabled = true")
        url = url.rstrip("/")
        self._url = url if url.endswith("/v3") else f"{url}/v3"
        self._session = client_sessions.load_from_options(
            insecure=options.insecure, cacert=options.cafile, cert=options.certfile,
            key=options.keyfile, timeout=options.http_connect_timeout or TIMEOUT_SECONDS)

    def log_in(self, credentials: Credentials) -> str:
        """Return a token.

        :raises LoginRefused: the credentials are wrong, or give no role in the project.
        :raises errors.Unavailable: Keystone does not answer.
        """
        auth = v3.ApplicationCredential(
            self._url, application_credential_id=credentials.name,
            application_credential_secret=credentials.password,
        ) if credentials.application else v3.Password(
            self._url, username=credentials.name, password=credentials.password,
            user_domain_name=credentials.domain, project_name=credentials.project,
            project_domain_name=credentials.project_domain)
        try:
            token = str(auth.get_access(self._session).auth_token)
        except (exceptions.Unauthorized, exceptions.NotFound, exceptions.BadRequest,
                exceptions.Forbidden) as error:
            raise LoginRefused(
                "Keystone does not know this application credential with this secret, or it has "
                "ended." if credentials.application else
                "Keystone does not know this user with this password, or the user has no role in "
                "this project.") from error
        except exceptions.ClientException as error:
            raise KeystoneAway("log you in") from error
        return token

    def log_out(self, token: str) -> None:
        """Revoke a token; one that is not valid any more is left alone.

        :raises errors.Unavailable: Keystone does not answer.
        """
        try:
            self._session.delete(
                f"{self._url}/auth/tokens", authenticated=False,
                headers={"X-Auth-Token": token, "X-Subject-Token": token})
        except (exceptions.Unauthorized, exceptions.NotFound, exceptions.Forbidden):
            pass
        except exceptions.ClientException as error:
            raise KeystoneAway(
                "revoke your token", "this browser has forgotten it, and it ends by itself"
            ) from error
