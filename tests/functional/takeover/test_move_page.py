"""The chapter "Move a cloud" happens as it says, with real services."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import uuid

import fixtures
import sqlalchemy as sa
import testtools

from tests import (
    base,
    blazar_databases,
    blazar_rows,
    console_pages,
    keystone_service,
    nova_databases,
    placement_service,
    serving,
    shadows,
)
from tests.functional.cli import commands, test_migrate

_PAGE = pathlib.Path(__file__).parents[3] / "doc" / "operator" / "move.rst"
_STATE = "/var/lib/placement/shadow"


@testtools.skipUnless(
    keystone_service.INSTALLED and blazar_databases.INSTALLED and placement_service.INSTALLED,
    "Keystone, Blazar or Placement is not installed")
class TestMoveACloud(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.database = f"sqlite:///{self.folder / 'ours.sqlite'}"
        self.placement = self.useFixture(placement_service.Placement())
        self.add_leased_host()
        for number in range(2):
            self.claim(self.placement.url, number + 1)
        self.databases = {
            "KEYSTONE": self.copy_keystone(), "NOVA_API": self.fill_nova(),
            "PLACEMENT": f"sqlite:///{self.placement.database}", "BLAZAR": self.fill_blazar()}
        self.environ = commands.environment(
            self.database, OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="true", COLUMNS="100",
            PATH=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
            **self.databases)

    def claim(self, url: str, amount: int) -> None:
        status, _ = shadows.ask(url, "PUT", f"/allocations/{uuid.uuid4()}", {
            "allocations": {self.placement.host: {"resources": {"VCPU": amount}}},
            "project_id": "project", "user_id": "user", "consumer_generation": None,
            "consumer_type": "INSTANCE"})
        self.assertEqual(204, status)

    def add_leased_host(self) -> None:
        """Make a host for Blazar, with the child that Blazar makes for the slots on it."""
        host, child = str(uuid.uuid4()), str(uuid.uuid4())
        inventories = {name: {"total": 100_000} for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
        for method, path, body in (
                ("POST", "/resource_providers", {"name": "leased", "uuid": host}),
                ("PUT", f"/resource_providers/{host}/inventories", {
                    "resource_provider_generation": 0, "inventories": inventories}),
                ("POST", "/resource_providers", {
                    "name": "blazar_leased", "uuid": child, "parent_provider_uuid": host})):
            self.placement.request(method, path, body)

    def copy_keystone(self) -> str:
        path = self.folder / "keystone.sqlite"
        shutil.copy(test_migrate._make_cloud().database, path)
        return f"sqlite:///{path}"

    def fill_nova(self) -> str:
        """Make a database with the quota of a project that was deleted."""
        url = nova_databases.api("sqlite")
        engine, tables = nova_databases.reflected(url, "quotas")
        with engine.begin() as connection:
            connection.execute(sa.insert(tables["quotas"]), {
                "project_id": "gone", "resource": "instances", "hard_limit": 5})
        return url

    def fill_blazar(self) -> str:
        url = blazar_databases.empty("sqlite")
        source = blazar_databases.Tables(url)
        self.addCleanup(source.dispose)
        source.insert([blazar_rows.host("1", "leased")])
        source.insert(blazar_rows.LeaseRows("PENDING").instances({"1": 1}))
        return url

    def play(self, section: str, state: pathlib.Path | None = None) -> None:
        """Run the commands of a section; they print what the page shows."""
        steps = console_pages.read_steps(_PAGE, [section])
        self.assertNotEqual([], steps)
        done = console_pages.run(
            steps, cwd=self.folder, environ=self.environ,
            replaced={} if state is None else {_STATE: str(state)},
            seconds=serving.SECONDS_TO_START)
        self.assertEqual([], list(console_pages.find_differences(steps, done)))

    def test_it_happens(self) -> None:
        self.play("The day before")
        ours = self.useFixture(serving.Service(self.database))
        proxy = self.useFixture(shadows.Proxy(self.placement.url, ours.url, self.folder))
        for number in range(3):
            self.claim(proxy.url, number + 1)
        shadows.wait_until(lambda: proxy.report().applied == 3)
        self.play("The evening", proxy.state)
        self.claim(proxy.url, 4)
        self.play("The morning after", proxy.state)
        self.play("The way back", proxy.state)
        for url in (self.placement.url, ours.url):
            _, document = shadows.ask(
                url, "GET", f"/resource_providers/{self.placement.host}/usages")
            self.assertEqual(13, document["usages"]["VCPU"])
