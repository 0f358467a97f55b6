"""The local limit driver keeps the contract of limit drivers."""

from oslo_config import cfg

from placement_core import db
from placement_core.catalog import domains, projects, regions, services
from placement_core.limits import limits, registered, users
from placement_core.plugin_api import loader
from placement_core.plugin_api.limits import LimitDriver
from placement_core.testing import limits as contract
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.flat import Flat
from placement_plugins.limits.local import LocalLimits
from tests import base, databases


def fill_catalog(ctx):
    """Make what the contract says exists."""
    for number, id_ in enumerate((contract.SERVICE, contract.OTHER_SERVICE)):
        services.create(ctx, service_type=f"service{number}", id=id_)
    for id_ in (contract.REGION, contract.OTHER_REGION):
        regions.create(ctx, id=id_)
    domains.create(ctx, name="domain", id=contract.DOMAIN)
    for id_, parent_id in ((contract.PROJECT, contract.DOMAIN), (contract.CHILD, contract.PROJECT),
                           (contract.OTHER_PROJECT, contract.DOMAIN)):
        projects.create(ctx, name=id_, id=id_, domain_id=contract.DOMAIN, parent_id=parent_id)


def item(service_id, region_id, name, **more):
    return {"service_id": service_id, "region_id": region_id, "resource_name": name, **more}


@databases.on_each_database
class TestLocalLimits(contract.LimitsContract, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        fill_catalog(self.ctx)
        self.catalog = LocalCatalog(cfg.ConfigOpts())

    def given(self, given, limits_given, user_limits):
        registered.create_many(self.ctx, self.catalog, [
            item(*key, default_limit=value) for key, value in given.items()])
        limits.create_many(self.ctx, self.catalog, Flat(cfg.ConfigOpts()), [
            item(*key, project_id=node, resource_limit=value)
            for (node, *key), value in limits_given.items()])
        users.create_many(self.ctx, self.catalog, [
            item(*key, project_id=project_id, user_id=user_id, resource_limit=value)
            for (project_id, user_id, *key), value in user_limits.items()])
        return LocalLimits(cfg.ConfigOpts()), self.ctx

    def test_it_answers_inside_the_transaction(self):
        """``transactional``: what the transaction wrote is seen before it is committed."""
        driver, ctx = self.given({(contract.SERVICE, contract.REGION, "cores"): 5}, {}, {})
        self.assertTrue(driver.transactional)
        with db.write(ctx):
            limits.create_many(ctx, self.catalog, Flat(cfg.ConfigOpts()), [item(
                contract.SERVICE, contract.REGION, "cores", project_id=contract.PROJECT,
                resource_limit=3)])
            found = driver.effective(ctx, [contract.PROJECT], service_id=contract.SERVICE,
                                     region_id=contract.REGION)
        self.assertEqual({contract.PROJECT: {"cores": 3}}, found.overrides)


class TestEntryPoint(base.TestCase):

    def test_it_loads(self):
        self.assertIs(LocalLimits, loader.load(
            "placement_core.limits", "local", LimitDriver, option="[limits] driver"))
