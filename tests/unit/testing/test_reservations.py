"""The contract of reservation plugins finds what is wrong with one."""

from __future__ import annotations

import itertools
import unittest

from oslo_config import cfg

from placement_core.plugin_api.reservations import ReservationSpec, Slots
from placement_core.testing.reservations import ReservationsContract
from placement_plugins.reservations import instance
from tests import base


class _Plain(instance.InstanceReservations):
    api_version = 1


class _Silent(instance.InstanceReservations):
    """It does not say for which version it was written."""


class _Unnamed(_Plain):
    api_version = 1
    resource_type = "Instances"


class _TakesAnyField(_Plain):
    api_version = 1
    create_schema = {"type": "object"}


class _RequiresAllOfAChange(_Plain):
    api_version = 1
    update_schema = instance.InstanceReservations.create_schema


class _TakesFloats(_Plain):
    api_version = 1

    def values(self, given, before=None, *, started=False):
        whole = {key: int(value) if isinstance(value, float) else value
                 for key, value in given.items()}
        return super().values(whole, before, started=started)


class _Forgets(_Plain):
    api_version = 1

    def values(self, given, before=None, *, started=False):
        found = dict(super().values(given, before, started=started))
        del found["resource_properties"]
        return found


class _LosesWhatIsHeld(_Plain):
    api_version = 1

    def need(self, spec: ReservationSpec, hosts):
        found = super().need(spec, hosts)
        assert isinstance(found, Slots)
        return Slots(found.size, 1 if spec.started else found.amount, found.affinity, found.hosts)


class _Wavers(_Plain):
    api_version = 1

    def __init__(self, conf):
        super().__init__(conf)
        self._calls = itertools.count(1)

    def need(self, spec: ReservationSpec, hosts):
        found = super().need(spec, hosts)
        return Slots(found.size, next(self._calls), found.affinity, found.hosts)


def _failed(plugin):
    class Suite(ReservationsContract, unittest.TestCase):
        fields = {"vcpus": 2, "memory_mb": 512, "disk_gb": 1, "amount": 2}
        refused = ({"affinity": "maybe"},)
        may_be_zero = ("disk_gb",)

        def plugin(self):
            return plugin(cfg.ConfigOpts())

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Suite).run(result)
    return {case.id().rpartition(".")[2].split(" ")[0].split("_", 1)[1].partition("_[")[0]
            for case, _ in (*result.failures, *result.errors)
            for case in [getattr(case, "test_case", case)]}


class TestContract(base.TestCase):
    def test_a_good_one(self):
        self.assertEqual(set(), _failed(_Plain))

    def test_what_is_wrong(self):
        for plugin, expected in (
            (_Silent, "version"), (_Unnamed, "resource_type"), (_TakesAnyField, "schemas"),
            (_RequiresAllOfAChange, "schemas"), (_TakesFloats, "numbers"),
            (_Forgets, "until_nothing_is_left"), (_LosesWhatIsHeld, "in_force"),
            (_Wavers, "need_is_pure"),
        ):
            self.assertIn(expected, _failed(plugin), plugin.__name__)
