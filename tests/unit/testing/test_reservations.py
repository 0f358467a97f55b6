"""The contract of reservation plugins finds what is wrong with one."""

from __future__ import annotations

import dataclasses
import itertools
import unittest

import numpy as np
from oslo_config import cfg

from placement_core.plugin_api.reservations import (
    HostTopology,
    InvalidReservation,
    LevelDomains,
    ReservationPlugin,
    ReservationSpec,
    Slots,
)
from placement_core.testing.reservations import ReservationsContract
from placement_plugins.reservations import instance
from tests import base
from tests.unit.testing import outcomes


class _Plain(instance.InstanceReservations):
    api_version = 1


class _Silent(ReservationPlugin):
    """It does not say for which version it was written."""

    resource_type = _Plain.resource_type
    create_schema, update_schema = _Plain.create_schema, _Plain.update_schema
    values, properties, need = _Plain.values, _Plain.properties, _Plain.need


class _BuiltOnAnother(_Plain):
    """It is of the version of the plugin that it is built on."""


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


class _NamesTooMuch(_Plain):
    api_version = 1
    resource_type = "virtual:" + "x" * 59


class _NeedsAHost(_Plain):
    api_version = 1

    def need(self, spec: ReservationSpec, hosts):
        if spec.values["vcpus"] > hosts.sizes[:, 0].max():
            raise InvalidReservation("No host has so many processors.", "vcpus")
        return super().need(spec, hosts)


class _LiesElsewhere(_Plain):
    api_version = 1

    def __init__(self, conf):
        super().__init__(conf)
        self._calls = itertools.count()

    def need(self, spec: ReservationSpec, hosts):
        domains = LevelDomains(
            "rack", np.full(len(hosts), next(self._calls) % 2), ["first", "second"])
        return dataclasses.replace(
            super().need(spec, hosts), topology=HostTopology(within=domains))


class _StartsWithoutAWindow(_Plain):
    api_version = 1

    def started(self, ctx, spec):
        pass


class _EndsNothing(_Plain):
    api_version = 1

    def ended(self, ctx, spec, window):
        raise NotImplementedError


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

    return {name.removeprefix("test_") for name in outcomes.find_failures(Suite)}


class TestContract(base.TestCase):
    def test_good_ones(self):
        for plugin in (_Plain, _BuiltOnAnother):
            self.assertEqual(set(), _failed(plugin), plugin.__name__)

    def test_what_is_wrong(self):
        for plugin, expected in (
            (_Silent, "version"), (_Unnamed, "resource_type"), (_TakesAnyField, "schemas"),
            (_RequiresAllOfAChange, "schemas"), (_TakesFloats, "numbers"),
            (_Forgets, "until_nothing_is_left"), (_LosesWhatIsHeld, "in_force"),
            (_Wavers, "need_is_pure"),
            (_NamesTooMuch, "resource_type"), (_NeedsAHost, "an_empty_pool"),
            (_LiesElsewhere, "need_is_pure"), (_StartsWithoutAWindow, "hooks"),
            (_EndsNothing, "hooks"),
        ):
            self.assertIn(expected, _failed(plugin), plugin.__name__)
