"""Neither the log at DEBUG nor an answer has a token, a password or a credential's secret."""

from __future__ import annotations

import contextlib
import http.client
import json
import unittest
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from tests import base, databases, keystone_service, serving
from tests.access import identities

#: Not the one in the URL of the tests, which may have none.
_DATABASE_PASSWORD = "s3cr3t-of-database"

#: What every token of Keystone begins with.
_FERNET = "gAAAAA"

#: Good requests, and some that are refused for all sorts of reasons.
_REQUESTS = (
    ("GET", "/resource_providers", None), ("POST", "/resource_providers", {"name": "host"}),
    ("POST", "/resource_providers", {"name": 7}), ("GET", "/resource_providers/nowhere", None),
    ("GET", "/v3/limits", None), ("POST", "/v3/limits", {"limits": []}),
    ("POST", "/v3/auth/tokens", {"auth": {"identity": {"token": {"id": "jane"}}}}),
    ("GET", "/v1/leases", None), ("POST", "/v1/leases", {"name": "lease"}),
    ("GET", "/capacity/v1/quota", None), ("POST", "/capacity/v1/claims", {"claim": {}}),
    ("GET", "/healthcheck", None), ("GET", "/readiness", None), ("GET", "/metrics", None),
    ("PUT", "/no/such/path", {}),
)


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestSecrets(base.TestCase):
    """A service of its own process, which logs in with an application credential."""

    #: The one whose URL has a password, if there is one.
    kind = "postgresql" if "postgresql" in databases.KINDS else "sqlite"
    #: Whose tokens are used; none: everybody's.
    callers: frozenset[str] = frozenset()

    def setUp(self) -> None:
        super().setUp()
        self.keystone = self.useFixture(keystone_service.Keystone())
        self.cloud = identities.make(self.keystone)
        self.credential = identities.make_credential(self.keystone)
        self.url = sa.make_url(databases.settings(self.kind).connection)
        if self.kind == "postgresql" and self.url.password is None:
            # A server that trusts everybody does not look at it.
            self.url = self.url.set(password=_DATABASE_PASSWORD)
        self.service = self.useFixture(serving.Service(
            self.url.render_as_string(hide_password=False), by="serve with manager", options={
                **self.keystone.make_authtoken_environment(self.get_login()),
                "OS_KEYSTONE_AUTHTOKEN__MEMCACHE_SECRET_KEY": "s3cr3t-of-memcache",
                "OS_API__AUTH_STRATEGY": "keystone", "OS_DEFAULT__DEBUG": "true",
                # Those that oslo.log keeps quiet by default, too.
                "OS_DEFAULT__DEFAULT_LOG_LEVELS": ",".join(f"{name}=DEBUG" for name in (
                    "keystoneauth", "keystonemiddleware", "oslo_policy", "sqlalchemy",
                    "stevedore", "urllib3")),
                "OS_METRICS__ENABLED": "true",
            }))

    def get_login(self) -> Mapping[str, str] | None:
        """Return how the service logs in at Keystone."""
        return {
            "auth_type": "v3applicationcredential",
            "application_credential_id": self.credential["id"],
            "application_credential_secret": self.credential["secret"]}

    def test_log_and_answers(self) -> None:
        texts = {}
        for who in self.callers or self.cloud.tokens:
            token = self.cloud.tokens[who]
            for method, path, body in _REQUESTS:
                texts[f"{who}: {method} {path}"] = self.ask(method, path, body, token)[1]
        admin = self.cloud.tokens["admin"]
        with self.without_table("leases"):
            status, texts["no table"] = self.ask("GET", "/v1/leases", None, admin)
            self.assertEqual(500, status)
        self.keystone.stop()
        status, texts["no Keystone"] = self.ask("GET", "/traits", None, "a-token-s3cr3t")
        self.assertEqual(503, status)
        self.service.stop()
        texts["log"] = log = self.service.log.read_text()
        for expected in ("DEBUG", "Traceback", "Unable to validate token",
                         "Authenticating user token", "Authorization failed for token"):
            self.assertIn(expected, log)
        for what, secret in self.list_secrets().items():
            self.assertGreater(len(secret), 5, what)
            self.assertEqual(
                [], [where for where, text in texts.items() if secret in text], what)

    @contextlib.contextmanager
    def without_table(self, name: str) -> Iterator[None]:
        """Let statements fail in a way that the service does not expect."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO gone")
        try:
            yield
        finally:
            with engine.begin() as connection:
                connection.exec_driver_sql(f"ALTER TABLE gone RENAME TO {name}")

    def ask(
        self, method: str, path: str, body: object, token: str | None
    ) -> tuple[int, str]:
        """Send a request; return status, and headers and body as one text."""
        headers = {"OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
        if token is not None:
            headers["X-Auth-Token"] = token
        connection = http.client.HTTPConnection(self.service.address, timeout=60)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, f"{response.getheaders()} {response.read().decode()}"
        finally:
            connection.close()

    def list_secrets(self) -> Mapping[str, str]:
        """Return what nobody may see, by what it is."""
        return {
            **{f"token of {who}": token
               for who, token in self.cloud.tokens.items() if token is not None},
            "token of nobody": "a-token-s3cr3t",
            "token of the service, and of whoever else": _FERNET,
            "secret of the credential": self.credential["secret"],
            "password": keystone_service.PASSWORD,
            "memcache_secret_key": "s3cr3t-of-memcache",
            **({"password of the database": self.url.password} if self.url.password else {}),
        }


class TestSecretsWithPassword(TestSecrets):
    """One that logs in with a password. With which token somebody calls has been tried."""

    kind = "sqlite"
    callers = frozenset({"admin", "member", "forged"})

    def get_login(self) -> Mapping[str, str] | None:
        """Return how the service logs in at Keystone."""
        return None
