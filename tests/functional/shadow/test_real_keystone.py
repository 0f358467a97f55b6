"""Limits of a real Keystone through the shadow, with tokens that it issued."""

from __future__ import annotations

import pathlib
import urllib.parse
import uuid
from typing import Any

import fixtures
import testtools

from tests import databases, keystone_service, placement_service, serving, shadows
from tests.functional.cli import commands


@testtools.skipUnless(
    keystone_service.INSTALLED and placement_service.INSTALLED,
    "Keystone or Placement is not installed")
class TestRealKeystone(testtools.TestCase):
    """Keystone is in charge of tokens for all; its limits are brought here."""

    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # Its own: all of its limits are copied, and other tests leave some that cannot be.
        self.keystone = self.useFixture(keystone_service.Keystone())
        self.admin = keystone_service.admin(self.keystone)
        self.name = f"shadow-{uuid.uuid4().hex}"
        self.service = self.admin.make("services", type=self.name, name=self.name)["id"]
        self.region = self.admin.make("regions", id=self.name)["id"]
        self.project = self.admin.make("projects", name=self.name, domain_id="default")["id"]
        self.about = {
            "service_id": self.service, "region_id": self.region, "resource_name": "servers"}
        trust = self.keystone.make_authtoken_environment()
        self.connection = databases.settings("sqlite").connection
        done = self.copy()
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.ours = self.useFixture(serving.Service(
            self.connection, options={"OS_API__AUTH_STRATEGY": "keystone", **trust})).url
        upstream = self.useFixture(placement_service.Process("\n".join([
            "[api]", "auth_strategy = keystone", "[keystone_authtoken]",
            *(f"{name.removeprefix('OS_KEYSTONE_AUTHTOKEN__').lower()} = {value}"
              for name, value in trust.items())])))
        self.proxy = self.useFixture(shadows.ThreadedProxy(
            upstream.url, self.ours, folder, keystone=self.keystone.url.removesuffix("/v3")))

    def copy(self) -> Any:
        return commands.run(
            "migrate", "copy", "--execute", "--from",
            f"keystone=sqlite:///{self.keystone.folder}/keystone.sqlite",
            connection=self.connection)

    def ask(self, url: str, method: str, path: str, body: object = None) -> Any:
        """Send a request that must succeed; return the document."""
        status, document = shadows.ask(
            url, method, path, body, headers={"X-Auth-Token": self.admin.token})
        self.assertTrue(200 <= status < 300, (method, path, status, document))
        return document

    def through(self, method: str, path: str, body: object = None) -> Any:
        return self.ask(self.proxy.url, method, f"/v3/{path}", body)

    def list_ours(self, collection: str) -> list[dict[str, Any]]:
        """Return what ours has of the service, without ids and links."""
        query = urllib.parse.urlencode({"service_id": self.service})
        records = self.ask(self.ours, "GET", f"/v3/{collection}?{query}")[collection]
        return [{name: record[name] for name in record if name not in ("id", "links")}
                for record in records]

    def list_theirs(self, collection: str) -> list[dict[str, Any]]:
        return [{name: record[name] for name in record if name not in ("id", "links")}
                for record in self.admin.list(collection)
                if record["service_id"] == self.service]

    def wait_for_ours(self) -> None:
        shadows.wait_until(lambda: all(
            self.list_ours(collection) == self.list_theirs(collection)
            for collection in ("registered_limits", "limits")))

    def test_from_the_shadow_to_the_switch(self) -> None:
        self.check_that_ours_follows()
        self.check_the_switch()

    def check_that_ours_follows(self) -> None:
        [registered] = self.through("POST", "registered_limits", {"registered_limits": [
            {**self.about, "default_limit": 10, "description": "of all"}]})["registered_limits"]
        [limit] = self.through("POST", "limits", {"limits": [
            {**self.about, "project_id": self.project, "resource_limit": 5}]})["limits"]
        self.wait_for_ours()
        self.through("PATCH", f"limits/{limit['id']}", {"limit": {"resource_limit": 7}})
        self.wait_for_ours()
        for path in ("limits", f"limits/{limit['id']}", "limits/model",
                     f"registered_limits?service_id={self.service}",
                     f"registered_limits/{registered['id']}"):
            self.through("GET", path)
        self.through("DELETE", f"limits/{limit['id']}")
        self.through("DELETE", f"registered_limits/{registered['id']}")
        self.wait_for_ours()
        self.assertEqual([], self.list_ours("registered_limits"))
        shadows.wait_until(lambda: self.proxy.report().equal == 5)
        report = self.proxy.report()
        self.assertEqual(
            ({}, {}, 5, 5), (report.different, report.unresolved, report.writes, report.applied))

    def check_the_switch(self) -> None:
        """It compares what Keystone has with ours; then ours answers, and Keystone follows."""
        self.through("POST", "registered_limits", {"registered_limits": [
            {**self.about, "default_limit": 10}]})
        self.admin.make("limits", **self.about, project_id=self.project, resource_limit=5)
        options = ("--state", str(self.proxy.state))
        done = commands.run("migrate", "switch", *options)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("0 differ", done.stdout)
        self.assertEqual(self.list_theirs("limits"), self.list_ours("limits"))
        [ours] = [record for record in self.through("GET", "limits")["limits"]
                  if record["service_id"] == self.service]
        self.through("PATCH", f"limits/{ours['id']}", {"limit": {"resource_limit": 6}})
        shadows.wait_until(lambda: self.list_theirs("limits")[0]["resource_limit"] == 6)
        done = commands.run("migrate", "reverse", *options)
        self.assertEqual(0, done.returncode, done.stderr)
