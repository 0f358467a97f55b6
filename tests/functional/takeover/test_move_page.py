"""The chapters about moving a cloud, or a part of it, happen as they say, with real services."""

from __future__ import annotations

import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping

import fixtures
import sqlalchemy as sa
import testtools

from placement_core.context import Context
from placement_core.reservations.leases import lease_queries
from placement_core.testing import factories
from tests import (
    base,
    blazar_databases,
    blazar_rows,
    console_pages,
    databases,
    keystone_service,
    nova_databases,
    placement_service,
    serving,
    shadows,
)
from tests.functional.cli import commands, test_migrate

_CHAPTERS = pathlib.Path(__file__).parents[3] / "doc" / "operator"
_STATE = "/var/lib/placement/shadow"
_NOVA_CONF = "/etc/nova/nova.conf"
_INSTALLED = (
    keystone_service.INSTALLED and blazar_databases.INSTALLED and placement_service.INSTALLED)


class _ChapterTestCase(base.TestCase):
    """Runs the commands of a chapter, which print what it shows.

    :cvar chapter: the name of its file.
    :ivar folder: where commands run.
    """

    chapter: str

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def configure(self, connection: str, **more: str) -> None:
        """Choose our database, and what else is in the environment of commands."""
        self.environ = commands.environment(
            connection, COLUMNS="100",
            PATH=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
            **more)

    def play(self, section: str, replaced: Mapping[str, str] | None = None) -> None:
        """Run the commands of a section, to their ends."""
        self.run_steps(self.read_steps(section), replaced)

    def play_until_it_runs(self, section: str) -> None:
        """Run the commands of a section; the last one goes on until the test ends."""
        *steps, last = self.read_steps(section)
        self.run_steps(steps)
        process, done = console_pages.start(
            last, cwd=self.folder, environ=self.environ, seconds=serving.SECONDS_TO_START)
        self.addCleanup(self.end, process)
        self.assertEqual([], list(console_pages.find_differences([last], done)))

    def read_steps(self, section: str) -> list[console_pages.Step]:
        steps = console_pages.read_steps(_CHAPTERS / self.chapter, [section])
        self.assertNotEqual([], steps)
        return steps

    def run_steps(
        self, steps: list[console_pages.Step], replaced: Mapping[str, str] | None = None
    ) -> None:
        done = console_pages.run(
            steps, cwd=self.folder, environ=self.environ, replaced=replaced or {},
            seconds=serving.SECONDS_TO_START)
        self.assertEqual([], list(console_pages.find_differences(steps, done)))

    @staticmethod
    def end(process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=serving.SECONDS_TO_START)

    def copy_keystone(self) -> str:
        path = self.folder / "keystone.sqlite"
        shutil.copy(test_migrate._make_cloud().database, path)
        return f"sqlite:///{path}"

    def fill_nova(self, **quotas: int) -> str:
        """Make a database of nova with quotas of instances; the last is of a deleted project.

        :param quotas: {project: how many instances}.
        """
        url = nova_databases.api("sqlite")
        for project_id, count in {**quotas, "gone": 5}.items():
            self.execute(url, "INSERT INTO quotas (project_id, resource, hard_limit) "
                         f"VALUES ('{project_id}', 'instances', {count})")
        return url

    def fill_blazar(self, host: str, *leases: blazar_rows.LeaseRows) -> str:
        """Make a database of Blazar with a host, whose id is 1, and leases."""
        url = blazar_databases.empty("sqlite")
        source = blazar_databases.Tables(url)
        self.addCleanup(source.dispose)
        source.insert([blazar_rows.host("1", host)])
        for lease in leases:
            source.insert(lease)
        return url

    @staticmethod
    def execute(url: str, statement: str) -> None:
        """Change something in another service's database."""
        with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
            connection.execute(sa.text(statement))


@testtools.skipUnless(_INSTALLED, "Keystone, Blazar or Placement is not installed")
class TestMoveACloud(_ChapterTestCase):
    chapter = "move.rst"

    def setUp(self) -> None:
        super().setUp()
        self.database = f"sqlite:///{self.folder / 'ours.sqlite'}"
        self.placement = self.useFixture(placement_service.Placement())
        self.add_leased_host()
        for number in range(2):
            self.claim(self.placement.url, number + 1)
        self.configure(
            self.database, OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="true",
            KEYSTONE=self.copy_keystone(), NOVA_API=self.fill_nova(),
            PLACEMENT=f"sqlite:///{self.placement.database}",
            BLAZAR=self.fill_blazar(
                "leased", blazar_rows.LeaseRows("PENDING").instances({"1": 1})))

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

    def test_it_happens(self) -> None:
        self.play("The day before")
        ours = self.useFixture(serving.Service(self.database))
        self.play("The evening")
        proxy = self.useFixture(shadows.Proxy(self.placement.url, ours.url, self.folder))
        state = {_STATE: str(proxy.state)}
        for number in range(3):
            self.claim(proxy.url, number + 1)
        shadows.wait_until(lambda: proxy.report().applied == 3)
        self.play("In the shadow", state)
        self.play_until_it_runs("The leases")
        self.claim(proxy.url, 4)
        self.play("The morning after", state)
        self.play("The way back", state)
        self.play("The way out", state)
        for url in (self.placement.url, ours.url):
            _, document = shadows.ask(
                url, "GET", f"/resource_providers/{self.placement.host}/usages")
            self.assertEqual(13, document["usages"]["VCPU"])


@testtools.skipUnless(_INSTALLED, "Keystone, Blazar or Placement is not installed")
class TestMoveAPart(_ChapterTestCase):
    chapter = "move_part.rst"

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.database("sqlite")
        self.addCleanup(self.database.dispose)

    def test_only_the_limits(self) -> None:
        """The catalog stays in Keystone, which is asked; cells stay in nova's database."""
        cloud = test_migrate._make_cloud()
        keystone, nova = self.copy_keystone(), self.fill_nova(**{cloud.child: 3})
        conf = self.folder / "nova.conf"
        conf.write_text("[quota]\ninstances = 7\n")
        self.configure(
            self.database.settings.connection, OS_CATALOG__DRIVER="keystone",
            OS_KEYSTONE_CLIENT__AUTH_SECTION="keystone_authtoken",
            OS_API_DATABASE__CONNECTION=nova, **cloud.keystone.make_authtoken_environment(),
            KEYSTONE=keystone, NOVA_API=nova)
        self.play("Limits in Keystone")
        self.play("Quotas in nova", {_NOVA_CONF: str(conf)})
        self.execute(keystone, 'UPDATE "limit" SET resource_limit = 6')
        self.execute(nova, f"UPDATE quotas SET hard_limit = 4 WHERE project_id = '{cloud.child}'")
        self.play("Until services ask here", {_NOVA_CONF: str(conf)})

    def test_only_the_leases(self) -> None:
        """A lease that was due while nobody looked is begun by our manager."""
        ctx = Context(self.database)
        factories.provider(ctx, "cmp-1", inventory={"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100})
        due_at = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0)
        begun_at = due_at - datetime.timedelta(hours=2)
        self.configure(self.database.settings.connection, BLAZAR=self.fill_blazar(
            "cmp-1",
            blazar_rows.LeaseRows("ACTIVE", name="build-farm", start=begun_at)
            .instances({"1": 1}),
            blazar_rows.LeaseRows("PENDING", name="load-test", start=due_at)
            .instances({"1": 1})))
        self.play("Copy while Blazar runs")
        self.play_until_it_runs("Hand over")
        shadows.wait_until(
            lambda: {lease.status for lease in lease_queries.page(ctx)} == {"ACTIVE"})
        self.play("Afterwards")
