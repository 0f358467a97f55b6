"""The strategy ``keystone`` with a real Keystone: its tokens, and no others, let in."""

from __future__ import annotations

import importlib.util
import unittest

import fixtures
from keystoneauth1 import session
from keystoneauth1.identity import v3

from tests import keystone_service
from tests.http import base


@unittest.skipUnless(importlib.util.find_spec("keystone"), "Keystone is not installed")
class TestTokens(base.HttpTestCase):
    options = {("api", "auth_strategy"): "keystone"}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.keystone = keystone_service.Keystone()
        cls.keystone.setUp()
        cls.addClassCleanup(cls.keystone.cleanUp)

    def setUp(self) -> None:
        for name, value in {
            "auth_type": "password", "auth_url": self.keystone.url,
            "www_authenticate_uri": self.keystone.url, "username": "admin",
            "password": keystone_service.PASSWORD, "project_name": "admin",
            "user_domain_id": "default", "project_domain_id": "default",
        }.items():
            self.useFixture(
                fixtures.EnvironmentVariable(f"OS_KEYSTONE_AUTHTOKEN__{name.upper()}", value))
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
