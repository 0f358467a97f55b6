"""The enforcer library above a real Keystone, judged by oslo.limit."""

from __future__ import annotations

from typing import Any

import fixtures
import requests
from keystoneauth1 import session
from keystoneauth1.identity import v3

from placement_core.enforcer import Connection
from tests import base, keystone_service
from tests.clients.limits_catalog import LimitsCatalog
from tests.unit.enforcer import judge
from tests.unit.enforcer.cloud import configuration, file


class _Administrator:
    """A Keystone's administrator."""

    def __init__(self, url: str) -> None:
        self._root = url.removesuffix("/v3")
        self._session = session.Session(v3.Password(
            url, username="admin", password=keystone_service.PASSWORD, project_name="admin",
            user_domain_id="default", project_domain_id="default"))

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request."""
        answer = self._session.request(
            self._root + path, method, json=body, raise_exc=False, authenticated=True)
        return answer.status_code, answer.json() if answer.content else None


class TestAboveKeystone(base.TestCase):
    """In the flat model."""

    def setUp(self) -> None:
        super().setUp()
        self.url = self.useFixture(keystone_service.Keystone()).url
        self.catalog = self.useFixture(LimitsCatalog(_Administrator(self.url)))
        self.sent = 0
        send = requests.Session.send

        def counting(*arguments: Any, **options: Any) -> Any:
            self.sent += 1
            return send(*arguments, **options)

        self.useFixture(fixtures.MonkeyPatch("requests.Session.send", counting))

    def requests(self) -> int:
        """Return how many requests this process sent since it was asked."""
        sent, self.sent = self.sent, 0
        return sent

    def test_random_claims(self) -> None:
        """Verdicts, reports, callbacks; with less than half of the requests."""
        section = file(
            self, auth_type="password", auth_url=self.url, username="admin",
            password=keystone_service.PASSWORD, user_domain_id="default", project_name="admin",
            project_domain_id="default", endpoint_id=self.catalog.ids["endpoint"])
        self.useFixture(judge.OsloLimit(section))
        connection = Connection(configuration(section))
        self.assertFalse(connection.one_question)
        judge.compare(
            self, connection, self.catalog.replace, self.requests, turns=4,
            projects=[self.catalog.ids["baobab"], self.catalog.ids["acacia"]])
