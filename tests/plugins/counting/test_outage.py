"""A cell's database goes away while the drivers are at work, and comes back."""

import unittest
import uuid

import sqlalchemy as sa

from placement_core.cells import engines
from placement_plugins.counting.legacy_cell import LegacyCellCounting
from placement_plugins.counting.placement import PlacementCounting
from tests import cell_databases, databases
from tests.functional.db import proxy
from tests.plugins.counting import nova_deployments

UNITS = ("instances", "VCPU", "MEMORY_MB")


class _Outage:
    """Three instances in two cells, of which ``lost`` goes away."""

    def setUp(self):
        super().setUp()
        self.kept = self.cell("kept")
        self.lost = self.map_lost()
        for cell, vcpus in ((self.kept, 1), (self.lost, 2), (self.lost, 4)):
            made = str(uuid.uuid4())
            self.map(made, cell)
            self.put(made, cell, vcpus=vcpus)
            self.claim(made, {"VCPU": vcpus, "MEMORY_MB": 10})

    def map_lost(self):
        return self.cell("lost")

    def ask(self, driver):
        count = driver.count(self.ctx, ["project"], units=UNITS, user_id="user")
        self.assertEqual(count.projects["project"], count.user)
        self.assertEqual(count.projects, driver.count_all(self.ctx, units=UNITS).projects)
        return (dict(count.user), [(each.name, each.known_since_seconds is not None)
                                   for each in count.missing_cells])

    def test_a_cell_stops_in_mid_run(self):
        conf = {"cells__timeout_seconds": 5}
        placement = PlacementCounting(self.conf(**conf))
        legacy = LegacyCellCounting(self.conf(**conf))
        remembering = LegacyCellCounting(self.conf(quota__on_missing_cell="last_known", **conf))
        whole = {"instances": 3, "VCPU": 7, "MEMORY_MB": 30}
        for driver in (placement, legacy, remembering):
            self.assertEqual((whole, []), self.ask(driver))
        self.stop()
        for _ in range(2):
            self.assertEqual((whole, []), self.ask(placement))
            self.assertEqual(
                ({"instances": 1, "VCPU": 1, "MEMORY_MB": 10}, [("lost", False)]),
                self.ask(legacy))
            self.assertEqual((whole, [("lost", True)]), self.ask(remembering))
        self.start()
        for driver in (placement, legacy, remembering):
            self.assertEqual((whole, []), self.ask(driver))


class TestFile(_Outage, nova_deployments.NovaDeploymentTestCase):
    """An SQLite file is moved away."""

    def stop(self):
        self.elsewhere = self.lost.path.parent.with_name(f"{self.lost.path.parent.name}-away")
        self.lost.path.parent.rename(self.elsewhere)
        engines.SHARED.dispose()  # An open file stays readable, wherever it is moved to.

    def start(self):
        self.elsewhere.rename(self.lost.path.parent)


@unittest.skipUnless("postgresql" in databases.KINDS, "no PostgreSQL is given")
class TestServer(_Outage, nova_deployments.NovaDeploymentTestCase):
    """The server of a cell cuts its connections and refuses new ones."""

    kind = "postgresql"

    def map_lost(self):
        url = sa.make_url(cell_databases.empty(self.kind, 1))
        self.proxy = proxy.Proxy((url.host, url.port or 5432), b"COMMIT")
        self.addCleanup(self.proxy.close)
        host, port = self.proxy.address
        return self.cell("lost", url=url.set(host=host, port=port).render_as_string(
            hide_password=False))

    def stop(self):
        self.proxy.arm("cut_request", word=b"instances", then_refuse=True)

    def start(self):
        self.proxy.refusing = False
