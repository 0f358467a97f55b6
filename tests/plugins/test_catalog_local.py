"""The catalog in our own database passes what every catalog has to pass."""

from oslo_config import cfg

from placement_core import db
from placement_core.catalog import domains, endpoints, projects, regions, services
from placement_core.plugin_api.catalog import Node
from placement_core.testing import catalog
from placement_plugins.catalog import local
from tests import base, databases


@databases.on_each_database
class TestLocalCatalog(catalog.CatalogContract, base.DatabaseTestCase):

    def make_driver(self):
        return local.LocalCatalog(cfg.ConfigOpts())

    def make_context(self):
        return self.ctx

    def make_catalog(self, world):
        for each in world.regions:
            regions.create(self.ctx, id=each.id, parent_region_id=each.parent_region_id,
                           description=each.description)
        for each in world.services:
            services.create(self.ctx, id=each.id, service_type=each.type, name=each.name,
                            description=each.description, enabled=each.enabled)
        for each in world.endpoints:
            endpoints.create(self.ctx, id=each.id, service_id=each.service_id,
                             interface=each.interface, url=each.url, region_id=each.region_id,
                             enabled=each.enabled)
        for each in world.domains:
            domains.create(self.ctx, id=each.id, name=each.name, description=each.description,
                           enabled=each.enabled)
        for each in world.projects:
            projects.create(self.ctx, id=each.id, name=each.name, domain_id=each.domain_id,
                            parent_id=each.parent_id, description=each.description,
                            enabled=each.enabled)
        return {}


@databases.on_each_database
class TestInsideATransaction(base.DatabaseTestCase):

    def test_it_sees_what_the_transaction_wrote(self):
        driver = local.LocalCatalog(cfg.ConfigOpts())
        self.assertTrue(driver.local)
        self.assertEqual(0, driver.depth(self.ctx))
        with db.write(self.ctx):
            made = domains.create(self.ctx, name="d", id="d")
            self.assertEqual(made, driver.domain(self.ctx, "d"))
            self.assertEqual((Node("d", None, is_domain=True),), driver.lineage(self.ctx, "d"))
            self.assertEqual(1, driver.depth(self.ctx))
            other = self.context()
            self.assertIsNone(driver.domain(other, "d"))
            self.assertEqual((Node("d", None),), driver.subtree(other, "d"))
        self.assertEqual([made], driver.domains(self.ctx))
