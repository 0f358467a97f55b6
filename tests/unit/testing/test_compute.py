"""The contract of compute drivers finds what is wrong with one."""

from __future__ import annotations

import unittest

from placement_core.plugin_api.compute import ComputeRefused, check_result
from placement_core.reservations.provisioning import compute_calls
from placement_core.testing.fakes import MemoryCompute
from tests import base
from tests.plugins.compute_cases import MemoryContract
from tests.unit.testing import outcomes

_UUID = "0d4bf6f6-4ab9-4b41-8fd5-0f5f9d2a5f01"
_IDS = ("put_flavor", "put_slot_aggregate", "put_host_aggregate")
_COUNTS = ("delete_flavor_servers", "delete_preemptible_servers", "snapshot_host_servers",
           "delete_host_servers")


class _AlwaysInAggregate(MemoryCompute):
    def put_flavor(self, reservation_id, *, in_aggregate, **fields):
        return super().put_flavor(reservation_id, in_aggregate=True, **fields)


class _NeverInAggregate(MemoryCompute):
    def put_flavor(self, reservation_id, *, in_aggregate, **fields):
        return super().put_flavor(reservation_id, in_aggregate=False, **fields)


class _IgnoresClasses(MemoryCompute):
    def put_flavor(self, reservation_id, *, resource_class=None, **fields):
        return super().put_flavor(reservation_id, **fields)


class _KeepsTheFirstFlavor(MemoryCompute):
    def put_flavor(self, reservation_id, *, vcpus, **fields):
        flavor = self.flavors.get(reservation_id)
        if flavor is None or flavor.size[0] != vcpus:
            super().put_flavor(reservation_id, vcpus=vcpus, **fields)
        return reservation_id


class _ClosesAggregates(MemoryCompute):
    def put_slot_aggregate(self, reservation_id, project_id):
        if project_id is None:
            raise ComputeRefused("The project is missing.")
        return super().put_slot_aggregate(reservation_id, project_id)


class _KeepsAggregatesClosed(MemoryCompute):
    def put_slot_aggregate(self, reservation_id, project_id):
        aggregate = self.aggregates.get(reservation_id)
        before = aggregate and aggregate[1]
        return super().put_slot_aggregate(reservation_id, project_id or before)


class _EmptiesAggregates(MemoryCompute):
    def put_slot_aggregate(self, reservation_id, project_id):
        if project_id is None:
            self.remove_aggregate(reservation_id)
        return super().put_slot_aggregate(reservation_id, project_id)


class _KeepsHostsThatAreGone(MemoryCompute):
    def remove_host(self, reservation_id, host):
        self._require(host)
        super().remove_host(reservation_id, host)


class _WaitsForHostsThatAreGone(MemoryCompute):
    def delete_host_servers(self, reservation_id, host):
        self._require(host)
        return super().delete_host_servers(reservation_id, host)


class _DeletesServersOfOthers(MemoryCompute):
    def delete_host_servers(self, reservation_id, host):
        return self._delete(lambda server: server.host == host)


_FAULTS = {
    _AlwaysInAggregate: "test_where_servers_of_a_flavor_go",
    _NeverInAggregate: "test_where_servers_of_a_flavor_go",
    _IgnoresClasses: "test_where_servers_of_a_flavor_go",
    _KeepsTheFirstFlavor: "test_where_servers_of_a_flavor_go",
    _ClosesAggregates: "test_an_aggregate_that_is_opened",
    _KeepsAggregatesClosed: "test_an_aggregate_that_is_opened",
    _EmptiesAggregates: "test_an_aggregate_that_is_opened",
    _KeepsHostsThatAreGone: "test_a_host_that_is_gone",
    _WaitsForHostsThatAreGone: "test_a_host_that_is_gone",
    _DeletesServersOfOthers: "test_servers_of_others_on_a_host",
}


def _find_failures(driver: type[MemoryCompute], *names: str) -> set[str]:
    """Return the contract's tests (those of the names, or all) that a driver does not pass."""

    class Suite(MemoryContract, unittest.TestCase):
        def given(self, hosts):
            self.compute = driver(hosts)
            return self.compute

    return outcomes.find_failures(Suite, *names)


def _change(call, make):
    """Return a driver whose method ``call`` is ``make`` of what it was."""
    return type("_Changed", (MemoryCompute,), {call: make(getattr(MemoryCompute, call))})


def _find_failures_of_result(call, result):
    """Return the test that a driver fails one of whose calls returns ``result``."""
    def make(method):
        def return_result(*values, **named):
            method(*values, **named)
            return result

        return return_result

    return _find_failures(_change(call, make), "test_results")


class TestContract(base.TestCase):
    def test_a_good_one(self):
        self.assertEqual(set(), _find_failures(MemoryCompute))

    def test_what_is_wrong(self):
        for driver, name in _FAULTS.items():
            self.assertIn(name, _find_failures(driver), driver.__name__)

    def test_names_of_arguments(self):
        """The manager passes arguments by name; a driver that has other names is found."""
        for call in sorted(compute_calls.KNOWN):
            driver = _change(call, lambda method: lambda *values: method(*values))
            self.assertNotEqual(set(), _find_failures(driver), call)

    def test_what_calls_may_return(self):
        for calls, results in (
            (_IDS, (None, "1", "f" * 36)), (("add_host",), (None, _UUID, _UUID.upper())),
            (_COUNTS, (0, 7)), (("remove_flavor",), (None, "nobody reads it")),
        ):
            for call in calls:
                for result in results:
                    self.assertEqual(
                        set(), _find_failures_of_result(call, result), (call, result))

    def test_what_they_must_not_return(self):
        for calls, results in (
            (_IDS, (42, b"f", "f" * 37, "f\0")),
            (("add_host",), (42, "42", "", f"urn:uuid:{_UUID}")), (_COUNTS, (None, "0", 1.5)),
        ):
            for call in calls:
                for result in results:
                    self.assertEqual(
                        {"test_results"}, _find_failures_of_result(call, result), (call, result))

    def test_a_refusal_names_it(self):
        error = self.assertRaises(ComputeRefused, check_result, "put_flavor", 42)
        self.assertEqual(
            "put_flavor of the driver returned 42, not a text of at most 36 characters or None.",
            str(error))
        error = self.assertRaises(ComputeRefused, check_result, "put_flavor", "f" * 10**6)
        self.assertLess(len(str(error)), 300)
