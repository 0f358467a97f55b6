"""Keystone's limits through the shadow; a service of ours plays Keystone."""

from __future__ import annotations

import pathlib
from typing import Any

import fixtures

from tests import serving, shadows
from tests.functional.cli import commands
from tests.functional.shadow.test_proxy import ShadowTestCase

_SERVICE, _PROJECT = "5" * 32, "7" * 32
_CATALOG = (
    ("region", "add", "RegionOne"), ("service", "add", "compute", "--name", "nova", "--id",
                                     _SERVICE),
    ("domain", "add", "Default", "--id", "default"),
    ("project", "add", "shop", "--domain", "Default", "--id", _PROJECT))


class TestLimits(ShadowTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.spoil()  # It has limits now.
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        database = self.keystone_database = f"sqlite:///{folder / 'keystone.sqlite'}"
        self.keystone = self.useFixture(serving.Service(database)).url
        for connection in (database, self.sides.database):
            for words in _CATALOG:
                done = commands.run("catalog", *words, connection=connection)
                self.assertEqual(0, done.returncode, done.stderr)
        self.proxy = self.start(keystone=self.keystone)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request through the proxy that must succeed; return the document."""
        status, document = shadows.ask(self.proxy.url, method, f"/v3/{path}", body)
        self.assertTrue(200 <= status < 300, document)
        return document

    def make(self) -> tuple[str, str]:
        """Make a registered limit and a limit; return their ids in Keystone."""
        about = {"service_id": _SERVICE, "region_id": "RegionOne", "resource_name": "servers"}
        registered = self.ask("POST", "registered_limits", {
            "registered_limits": [{**about, "default_limit": 10}]})
        limit = self.ask("POST", "limits", {
            "limits": [{**about, "project_id": _PROJECT, "resource_limit": 5}]})
        return registered["registered_limits"][0]["id"], limit["limits"][0]["id"]

    def list_ours(self, collection: str, field: str) -> list[int]:
        """Return the values that ours has."""
        _, document = shadows.ask(self.sides.ours, "GET", f"/v3/{collection}")
        return [record[field] for record in document[collection]]

    def wait_for_ours(self, limits: list[int], registered: list[int]) -> None:
        shadows.wait_until(lambda: (
            self.list_ours("limits", "resource_limit"),
            self.list_ours("registered_limits", "default_limit")) == (limits, registered))

    def test_ids_of_both_sides(self) -> None:
        """Each makes its own; requests name those of the side that answers."""
        registered, limit = self.make()
        self.wait_for_ours([5], [10])
        self.ask("PATCH", f"limits/{limit}", {"limit": {"resource_limit": 7}})
        self.wait_for_ours([7], [10])
        for path in ("limits", f"limits/{limit}", "registered_limits", "limits/model"):
            self.ask("GET", path)
        self.ask("DELETE", f"limits/{limit}")
        # As long as there are limits, nobody may.
        self.ask("PATCH", f"registered_limits/{registered}", {
            "registered_limit": {"default_limit": 11}})
        self.wait_for_ours([], [11])
        self.ask("DELETE", f"registered_limits/{registered}")
        self.wait_for_ours([], [])
        self.proxy.stop()
        report = self.proxy.report()
        self.assertEqual(({}, {}), (report.different, report.unresolved))
        self.assertEqual((6, 4), (report.applied, report.equal))

    def test_a_difference(self) -> None:
        """What Keystone has is read again, and written into ours under its id there."""
        _, limit = self.make()
        self.wait_for_ours([5], [10])
        shadows.ask(self.keystone, "PATCH", f"/v3/limits/{limit}", {
            "limit": {"resource_limit": 8}})
        self.ask("GET", f"limits/{limit}")
        self.wait_for_ours([8], [10])
        shadows.ask(self.keystone, "DELETE", f"/v3/limits/{limit}")
        self.assertEqual(404, shadows.ask(self.proxy.url, "GET", f"/v3/limits/{limit}")[0])
        self.wait_for_ours([], [10])
        shadows.wait_until(lambda: not self.proxy.report().unresolved)

    def test_the_switch_compares_limits(self) -> None:
        """What differs is brought to what the side has that answered until then."""
        _, limit = self.make()
        self.wait_for_ours([5], [10])
        ours = shadows.ask(self.sides.ours, "GET", "/v3/limits")[1]["limits"][0]["id"]
        self.assertNotEqual(limit, ours)
        shadows.ask(self.sides.ours, "PATCH", f"/v3/limits/{ours}", {
            "limit": {"resource_limit": 6}})
        state = ("--state", str(self.proxy.state))
        done = commands.run("migrate", "switch", *state)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("0 differ", done.stdout)
        self.wait_for_ours([5], [10])
        # Now clients name ours.
        self.ask("PATCH", f"limits/{ours}", {"limit": {"resource_limit": 9}})
        shadows.wait_until(lambda: shadows.ask(
            self.keystone, "GET", f"/v3/limits/{limit}")[1]["limit"]["resource_limit"] == 9)

    def test_the_rest_stays_keystones(self) -> None:
        done = commands.run("migrate", "switch", "--state", str(self.proxy.state))
        self.assertIn("no token to compare with", done.stderr)
        self.make()
        done = commands.run("migrate", "switch", "--state", str(self.proxy.state))
        self.assertEqual(0, done.returncode, done.stderr)
        done = commands.run("catalog", "project", "add", "only-there", "--domain", "Default",
                            connection=self.keystone_database)
        self.assertEqual(0, done.returncode, done.stderr)
        projects = self.ask("GET", "projects")["projects"]
        self.assertIn("only-there", [project["name"] for project in projects])
