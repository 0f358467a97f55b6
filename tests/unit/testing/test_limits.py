"""The contract of limit drivers finds what is wrong with one."""

from __future__ import annotations

import unittest

from placement_core import amounts
from placement_core.context import Context
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName
from placement_core.testing.limits import LimitsContract
from tests import base
from tests.unit.testing import outcomes


class _Memory(LimitDriver):
    """Limits in memory, as the suite passes them."""

    api_version = 1

    def __init__(self, registered, limits, user_limits):
        self._registered, self._limits, self._user_limits = registered, limits, user_limits

    def effective(self, ctx, node_ids, *, service_id, region_id):
        overrides = {}
        for (node_id, *source, name), limit in self._limits.items():
            if self._matches(source, [service_id, region_id]) and node_id in node_ids:
                overrides.setdefault(node_id, {})[name] = self._read(limit)
        return EffectiveLimits({
            name: self._read(limit) for (*source, name), limit in self._registered.items()
            if self._matches(source, [service_id, region_id])}, overrides)

    def user_limits(self, ctx, project_id, user_id, *, service_id, region_id):
        return self.list_user_limits(
            ctx, service_id=service_id, region_id=region_id).get((project_id, user_id), {})

    def list_user_limits(self, ctx, *, service_id, region_id):
        limits = {}
        for (project_id, user_id, *source, name), limit in self._user_limits.items():
            if self._matches(source, [service_id, region_id]):
                limits.setdefault((project_id, user_id), {})[name] = self._read(limit)
        return limits

    def registered(self, ctx):
        return [RegisteredName(*names) for names in self._registered]

    def _matches(self, source, wanted):
        return source == wanted

    def _read(self, limit):
        return amounts.from_wire(limit)


class _AnyService(_Memory):
    def _matches(self, source, wanted):
        return source[1] == wanted[1]


class _NoRegionIsAny(_Memory):
    def _matches(self, source, wanted):
        return source[0] == wanted[0] and wanted[1] in (None, source[1])


class _FallsBackToNoRegion(_Memory):
    def _matches(self, source, wanted):
        return source[0] == wanted[0] and source[1] in (None, wanted[1])


class _UnlimitedIsMinusOne(_Memory):
    def _read(self, limit):
        return limit


class _AllNodes(_Memory):
    def effective(self, ctx, node_ids, *, service_id, region_id):
        nodes = [node_id for node_id, *_ in self._limits]
        return super().effective(ctx, nodes, service_id=service_id, region_id=region_id)


class _LowersNames(_Memory):
    def effective(self, ctx, node_ids, *, service_id, region_id):
        answer = super().effective(ctx, node_ids, service_id=service_id, region_id=region_id)
        return EffectiveLimits(
            {name.lower(): limit for name, limit in answer.defaults.items()}, answer.overrides)


class _DefaultsOfMany(_Memory):
    def effective_of_many(self, ctx, node_ids, *, service_id, region_id):
        return self.effective(ctx, (), service_id=service_id, region_id=region_id)


class _IndexesNodes(_Memory):
    def effective_of_many(self, ctx, node_ids, *, service_id, region_id):
        return self.effective(ctx, node_ids[:], service_id=service_id, region_id=region_id)


class _ListsRegionsOnly(_Memory):
    def registered(self, ctx):
        return [name for name in super().registered(ctx) if name.region_id is not None]


class _UsersOfAnyProject(_Memory):
    def user_limits(self, ctx, project_id, user_id, *, service_id, region_id):
        limits = self.list_user_limits(ctx, service_id=service_id, region_id=region_id)
        return {name: limit for (_, owner), of_user in limits.items() if owner == user_id
                for name, limit in of_user.items()}


_FAULTS = {
    _AnyService: "test_another_service",
    _NoRegionIsAny: "test_no_region",
    _FallsBackToNoRegion: "test_a_region",
    _UnlimitedIsMinusOne: "test_unlimited_and_zero",
    _AllNodes: "test_a_lineage",
    _LowersNames: "test_names_are_told_to_the_letter",
    _DefaultsOfMany: "test_overrides",
    _IndexesNodes: "test_defaults",
    _ListsRegionsOnly: "test_registered_names",
    _UsersOfAnyProject: "test_user_limits",
}


def _find_failures(driver: type[_Memory]) -> set[str]:
    """Return the contract's tests that a driver does not pass."""

    class Suite(LimitsContract, unittest.TestCase):
        def given(self, registered, limits, user_limits):
            return driver(registered, limits, user_limits), Context(database=None)

    return outcomes.find_failures(Suite)


class TestContract(base.TestCase):
    def test_a_good_one(self):
        self.assertEqual(set(), _find_failures(_Memory))

    def test_what_is_wrong(self):
        for driver, name in _FAULTS.items():
            self.assertIn(name, _find_failures(driver), driver.__name__)
