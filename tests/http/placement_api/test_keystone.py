"""The strategy ``keystone`` with a real Keystone: its tokens, and no others, let in.

``tests.access`` has what each kind of token lets in to.
"""

from __future__ import annotations

import json
import time
import unittest

import fixtures
from keystoneauth1 import session
from keystoneauth1.identity import v3

from placement_core import app
from tests import keystone_service
from tests.http import base


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestTokens(base.HttpTestCase):
    options = {("api", "auth_strategy"): "keystone"}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.keystone = keystone_service.Keystone()
        cls.keystone.setUp()
        cls.addClassCleanup(cls.keystone.cleanUp)

    def setUp(self) -> None:
        for name, value in self.keystone.make_authtoken_environment().items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        super().setUp()

    def token(self, **scope: str) -> str:
        return session.Session(v3.Password(
            self.keystone.url, username="admin", user_domain_id="default",
            password=keystone_service.PASSWORD, **scope)).get_token()

    def test_a_project_token(self) -> None:
        token = self.token(project_name="admin", project_domain_id="default")
        for _ in range(2):
            self.assertEqual(
                200, self.ask("GET", "/resource_providers", token=token).status_int)
        created = self.ask("POST", "/resource_providers", {"name": "host"}, token=token)
        self.assertEqual(200, created.status_int)

    def test_tokens_of_other_scopes(self) -> None:
        for scope in ({"system_scope": "all"}, {"domain_id": "default"}):
            try:
                token = self.token(**scope)
            except Exception as error:
                self.assertIn("HTTP 401", str(error))  # no role there: no token
                continue
            self.assert_refused(
                403, "placement:resource_providers:list",
                self.ask("GET", "/resource_providers", token=token))

    def test_no_role(self) -> None:
        response = self.ask("GET", "/resource_providers", token=self.token(unscoped=True))
        self.assert_refused(403, "Policy does not allow", response)

    def test_a_wrong_token(self) -> None:
        for token in ("gAAAAABrAQGuVtu1YBsXWChoSfb9cT75sMYE", "admin", None):
            response = self.ask("GET", "/resource_providers", token=token)
            self.assertEqual(401, response.status_int)
            self.assertIn(self.keystone.url, response.headers["WWW-Authenticate"])

    def test_the_root_needs_none(self) -> None:
        self.assertEqual(200, self.ask("GET", "/", token=None).status_int)

    def test_a_revoked_token(self) -> None:
        """It is refused once the result of its validation is not kept any longer."""
        token = self.use_and_revoke(token_cache_time=300)
        self.assertEqual(200, self.ask("GET", "/resource_providers", token=token).status_int)
        token = self.use_and_revoke(token_cache_time=1)
        time.sleep(1)
        self.assertEqual(401, self.ask("GET", "/resource_providers", token=token).status_int)
        token = self.use_and_revoke(token_cache_time=-1)
        self.assertEqual(401, self.ask("GET", "/resource_providers", token=token).status_int)

    def test_tokens_that_are_kept_for_ever(self) -> None:
        """The middleware takes 0 for no bound; who means no cache is told."""
        log = self.useFixture(fixtures.FakeLogger())
        token = self.use_and_revoke(token_cache_time=0)
        self.assertEqual(200, self.ask("GET", "/resource_providers", token=token).status_int)
        self.assertIn("[keystone_authtoken] token_cache_time = 0: ", log.output)

    def test_access_rules(self) -> None:
        """A credential with rules needs an option, which names one type of service."""
        rule = {"service": "placement", "method": "GET", "path": "/resource_providers"}
        admin = keystone_service.admin(self.keystone)
        service_id = admin.make("services", type="placement")["id"]
        admin.make("endpoints", interface="public", url="http://localhost", service_id=service_id)
        user_id = session.Session(v3.Password(
            self.keystone.url, username="admin", user_domain_id="default",
            password=keystone_service.PASSWORD, project_name="admin",
            project_domain_id="default")).get_user_id()
        _, _, answer = admin.send("POST", f"/users/{user_id}/application_credentials", {
            "application_credential": {"name": "reads", "access_rules": [rule]}})
        credential = json.loads(answer)["application_credential"]
        token = session.Session(v3.ApplicationCredential(
            self.keystone.url, application_credential_id=credential["id"],
            application_credential_secret=credential["secret"])).get_token()
        self.assertEqual(401, self.ask("GET", "/resource_providers", token=token).status_int)
        self.useFixture(fixtures.EnvironmentVariable(
            "OS_KEYSTONE_AUTHTOKEN__SERVICE_TYPE", "placement"))
        self.app = app.make_app(self.conf)
        for method, path, status in (
                ("GET", "/resource_providers", 200), ("POST", "/resource_providers", 401),
                ("GET", "/traits", 401), ("GET", "/v1/leases", 401)):
            response = self.ask(method, path, {} if method == "POST" else None, token=token)
            self.assertEqual(status, response.status_int, path)

    def use_and_revoke(self, *, token_cache_time: int) -> str:
        """Serve with this option, and return a token that was good until now."""
        self.useFixture(fixtures.EnvironmentVariable(
            "OS_KEYSTONE_AUTHTOKEN__TOKEN_CACHE_TIME", str(token_cache_time)))
        self.app = app.make_app(self.conf)
        token = self.token(project_name="admin", project_domain_id="default")
        self.assertEqual(200, self.ask("GET", "/resource_providers", token=token).status_int)
        status, _, _ = keystone_service.admin(self.keystone).send(
            "DELETE", "/auth/tokens", headers={"X-Subject-Token": token})
        self.assertEqual(204, status)
        return token
