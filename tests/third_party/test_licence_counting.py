"""A counting driver of somebody else's: installed, chosen, and held to the contract."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys

import fixtures
from oslo_config import cfg

from placement_core import errors, services
from placement_core.catalog import services as catalog_services
from placement_core.context import Context
from placement_core.limits import registered
from placement_core.plugin_api import loader
from placement_core.plugin_api.counting import CountingDriver
from placement_core.testing import counting as contract
from placement_plugins.catalog.local import LocalCatalog
from tests import base, serving
from tests.http import base as http
from tests.third_party import installing


class ThirdPartyTestCase(base.DatabaseTestCase):
    """A test with the distribution installed."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(installing.Installed("licence_counting"))
        self.register = self.folder / "register.csv"

    def write(self, *lines: tuple[str, str, str, int]) -> None:
        self.register.write_text("".join(
            ",".join(map(str, line)) + "\n" for line in lines))

    def conf(self, **options: str):
        made = http.configuration(
            self.database.settings.connection, {("quota", "counting_driver"): "licences"})
        driver = importlib.import_module("licence_counting")
        made.register_opts(driver.OPTIONS, group=driver.GROUP)
        for name, value in options.items():
            made.set_override(name, value, driver.GROUP)
        return made


class TestContract(contract.CountingContract, ThirdPartyTestCase):
    """What its author would have run."""

    classes = ("CUSTOM_LICENCE",)
    counts_instances = False
    counts_members = False

    def given(self, instances):
        self.write(*((each.uuid, each.project_id, each.user_id, each.amounts["CUSTOM_LICENCE"])
                     for each in instances))
        driver = loader.load(
            "placement_core.counting", "licences", CountingDriver, option="[quota]")
        return driver(self.conf(register=str(self.register))), self.ctx


class TestService(ThirdPartyTestCase):

    def test_it_is_chosen(self) -> None:
        """``[quota] counting_driver`` names it, and the service counts with it."""
        self.write(("one", "project", "user", 3), ("two", "other", "user", 4))
        parts = services.build(self.conf(register=str(self.register)))
        self.addCleanup(parts.database.dispose)
        self.assertEqual("licence_counting", type(parts.counting).__module__)
        count = parts.counting.count(
            Context(parts.database), ["project"], units=["CUSTOM_LICENCE"])
        self.assertEqual({"project": {"CUSTOM_LICENCE": 3}}, count.projects)

    def test_its_own_option_is_missing(self) -> None:
        """The service does not start, and says in one line what is expected."""
        error = self.assertRaises(errors.ConfigurationError, services.build, self.conf())
        self.assertEqual(
            "[licence_counting] register: expected the file that the licence server writes",
            str(error))

    def test_it_is_listed(self) -> None:
        """The service's own command says which drivers there are, and whose they are."""
        done = subprocess.run(
            [sys.executable, "-c", serving._MAIN, "plugins", "list"], capture_output=True,
            text=True, env=os.environ | {"PYTHONPATH": self.path()}, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(
            done.stdout, r"counting +\| licences +\| licence_counting:LicenceCounting +\| "
            r"licence-counting 1.0")

    def test_a_started_service_counts_with_it(self) -> None:
        """A process of its own, chosen by options alone."""
        self.write(("one", "project", "user", 3), ("two", "project", "other", 4))
        catalog = LocalCatalog(cfg.ConfigOpts())
        compute = catalog_services.create(self.ctx, service_type="compute").id
        registered.create_many(self.ctx, catalog, [{
            "service_id": compute, "region_id": None, "resource_name": "class:CUSTOM_LICENCE",
            "default_limit": 10}])
        service = self.useFixture(serving.Service(
            self.database.settings.connection, options={
                "PYTHONPATH": self.path(), "OS_QUOTA__COUNTING_DRIVER": "licences",
                "OS_LICENCE_COUNTING__REGISTER": str(self.register)}))
        status, quota = service.request("GET", "/capacity/v1/quota/project")
        self.assertEqual(200, status, quota)
        self.assertEqual("licences", quota["source"])
        self.assertEqual(7, quota["resources"]["class:CUSTOM_LICENCE"]["used"])
        self.write(("one", "project", "user", 1))
        _, quota = service.request("GET", "/capacity/v1/quota/project")
        self.assertEqual(1, quota["resources"]["class:CUSTOM_LICENCE"]["used"])

    def path(self) -> str:
        root = installing.ROOT.parent.parent
        return os.pathsep.join([str(root), str(root / "plugins"), *sys.path])
