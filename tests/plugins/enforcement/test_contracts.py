"""Every model that comes with the service: what all models keep, and that it is registered."""

from __future__ import annotations

import configparser
import pkgutil

from oslo_config import cfg

from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.testing import enforcement
from placement_plugins.enforcement import flat, overcommit, strict_two_level, tree
from tests import base
from tests.repo.test_packaging import ROOT


class TestFlat(enforcement.ModelContract, base.TestCase):
    def make_model(self):
        return flat.Flat(cfg.ConfigOpts())


class TestStrictTwoLevel(enforcement.ModelContract, base.TestCase):
    def make_model(self):
        return strict_two_level.StrictTwoLevel(cfg.ConfigOpts())


class TestTree(enforcement.ModelContract, base.TestCase):
    def make_model(self):
        return tree.Tree(cfg.ConfigOpts())


class TestOvercommit(enforcement.ModelContract, base.TestCase):
    factor = 1.0

    def make_model(self):
        conf = cfg.ConfigOpts()
        conf.register_opts(overcommit.OPTIONS, group=overcommit.GROUP)
        conf.set_override("factor", self.factor, group=overcommit.GROUP)
        return overcommit.Overcommit(conf)


class TestOvercommitByHalf(TestOvercommit):
    factor = 1.5


class TestEntryPoints(base.TestCase):
    def test_each_model_is_registered_by_its_name(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        lines = setup["options.entry_points"]["placement_core.enforcement"].split("\n")
        points = dict(line.split(" = ") for line in lines if line)
        self.assertEqual({"flat", "strict_two_level", "tree", "overcommit"}, set(points))
        for name, target in points.items():
            model = pkgutil.resolve_name(target)
            self.assertTrue(issubclass(model, EnforcementModel), target)
            self.assertEqual(name, model.name)
