"""The contract of reservation plugins, as tests for their authors.

Write ``class TestX(ReservationsContract, unittest.TestCase)`` with ``plugin``, ``fields`` and
``refused``.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import unittest
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jsonschema

from placement_core import errors
from placement_core.context import Context
from placement_core.plugin_api import loader
from placement_core.plugin_api.reservations import (
    Amounts,
    Demand,
    DoesNotFit,
    Hosts,
    HostTopology,
    InvalidReservation,
    ReservationPlugin,
    ReservationSpec,
    Size,
    Slots,
    WholeHosts,
    Window,
)
from placement_core.reservations.scheduling import planner
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_core.reservations.scheduling.pools import AmountBooking, Bookings, Pool

#: The hosts on which reservations are planned, and their properties.
HOSTS = Hosts.of(
    [(3, 8, 8192, 100, True, False), (5, 16, 16384, 200, True, True),
     (8, 8, 8192, 100, True, False)],
    {"vcpus": [8, 16, 8], "hypervisor_type": ["QEMU", "QEMU", None]})

WINDOW = Window.of(1_800_000_000, 1_800_003_600)

#: At most so many reservations are planned until one does not fit.
_MANY = 256

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class ReservationsContract(_Mixin):
    """Tests that every reservation plugin has to pass."""

    #: The fields of a reservation that fits at least once, and fewer than ``_MANY`` times, on
    #: ``HOSTS`` or in the capacities of the plugin.
    fields: Mapping[str, Any]

    #: Changes of ``fields`` that the plugin has to refuse.
    refused: Sequence[Mapping[str, Any]] = ()

    #: The numeric fields that may be 0.
    may_be_zero: Collection[str] = ()

    def plugin(self) -> ReservationPlugin:
        """Return the plugin to test, with its options."""
        raise NotImplementedError

    def make_context(self) -> Context:
        """Return the context with which the hooks are called.

        It has no database; override it if the hooks of the plugin use one.
        """
        return Context(database=None)  # type: ignore[arg-type]

    # Attributes --------------------------------------------------------------

    def test_version(self) -> None:
        """The class of the plugin has its own ``api_version``, which is the present one."""
        self.assertIsNone(
            loader.find_mismatch("the plugin", type(self.plugin()), ReservationPlugin))

    def test_resource_type(self) -> None:
        """The class has a resource type in the form that clients can name, not too long."""
        plugin = self.plugin()
        self.assertRegex(plugin.resource_type, r"\A[a-z0-9_]+:[a-z0-9_.]+\Z")
        self.assertIsNone(type(plugin).find_misnaming(plugin.resource_type))

    def test_schemas(self) -> None:
        """The schemas accept objects only, and refuse unknown fields."""
        plugin = self.plugin()
        for schema in (plugin.create_schema, plugin.update_schema):
            jsonschema.Draft7Validator.check_schema(schema)
            self.assertTrue(_accepts(schema, self.fields))
            self.assertFalse(_accepts(schema, {**self.fields, "no_such_field": 1}))
            for other in ([], "text", None, 1):
                self.assertFalse(_accepts(schema, other))
        self.assertTrue(_accepts(plugin.update_schema, {}))

    def test_capacities(self) -> None:
        """Capacities are integers, not negative."""
        for what, amount in self.plugin().capacities().items():
            self.assertIsInstance(what, str)
            self.assertIs(int, type(amount))
            self.assertGreaterEqual(amount, 0)

    # Fields ------------------------------------------------------------------

    def test_values(self) -> None:
        """``values`` returns normalized JSON values, and an update keeps the other fields."""
        plugin = self.plugin()
        given = json.loads(json.dumps(self.fields))
        values = plugin.values(given)
        self.assertEqual(self.fields, given)
        self.assertEqual(values, json.loads(json.dumps(values)))
        self.assertTrue(_accepts(plugin.create_schema, values))
        self.assertEqual(values, plugin.values(values))
        for started in (False, True):
            self.assertEqual(values, plugin.values({}, values, started=started))
            self.assertEqual(values, plugin.values(values, values, started=started))

    def test_what_is_required(self) -> None:
        """The schema requires every field without which ``need`` would fail."""
        plugin = self.plugin()
        for field in self.fields:
            given = {key: value for key, value in self.fields.items() if key != field}
            if _accepts(plugin.create_schema, given):
                plugin.need(_spec(plugin, plugin.values(given)), HOSTS)

    def test_numbers(self) -> None:
        """Numeric fields refuse all but integers from 1 (some from 0) to the largest amount."""
        numbers = [field for field, value in self.fields.items() if type(value) is int]
        for field in numbers:
            if field not in self.may_be_zero:
                self._assert_refused({field: 0})
            for value in (-1, 1.0, 1.5, True, False, 2**31, 10**30, [], {}, "", "-1", "1.0",
                          "1e3", " 1", "1\n", "٣", "\0", "🙂", None):
                self._assert_refused({field: value})

    def test_refused(self) -> None:
        """The changes in ``refused`` are refused."""
        for change in self.refused:
            self._assert_refused(change)

    def _assert_refused(self, change: Mapping[str, Any]) -> None:
        plugin = self.plugin()
        given = {**self.fields, **change}
        for schema, fields, before in (
            (plugin.create_schema, given, None),
            (plugin.update_schema, change, plugin.values(self.fields)),
        ):
            if not _accepts(schema, fields):
                continue
            with self.subTest(str(change)[:80]), self.assertRaises(errors.Invalid):
                plugin.need(_spec(plugin, plugin.values(fields, before)), HOSTS)

    # Needs -------------------------------------------------------------------

    def test_properties(self) -> None:
        """``need`` reads only the host properties that ``properties`` names."""
        plugin = self.plugin()
        spec = _spec(plugin, plugin.values(self.fields))
        named = plugin.properties(spec.values)
        fewer = dataclasses.replace(HOSTS, properties={
            name: column for name, column in HOSTS.properties.items() if name in named})
        self.assertEqual(_plain(plugin.need(spec, HOSTS)), _plain(plugin.need(spec, fewer)))

    def test_need_is_pure(self) -> None:
        """``need`` returns the same each time, in any thread, and does not change the hosts."""
        plugin = self.plugin()
        spec = _spec(plugin, plugin.values(self.fields))
        before = HOSTS.sizes.tolist()
        needs = [_plain(plugin.need(spec, HOSTS))]
        threads = [
            threading.Thread(target=lambda: needs.append(_plain(plugin.need(spec, HOSTS))))
            for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([needs[0]] * 5, needs)
        self.assertEqual(before, HOSTS.sizes.tolist())

    def test_an_empty_pool(self) -> None:
        """Without any host, as at first, what needs one is refused, for a reason."""
        plugin = self.plugin()
        request = ReservationRequest(plugin, _spec(plugin, plugin.values(self.fields)))
        try:
            grant, = planner.plan(Pool(Hosts.of([]), Bookings.of([])), WINDOW, [request])
        except (DoesNotFit, InvalidReservation):
            return
        self.assertEqual([], list(grant.shares))

    def test_until_nothing_is_left(self) -> None:
        """Reservations are planned until one does not fit, and never exceed the capacity.

        After their end, the same reservation fits again.
        """
        taken: list[Grant] = []
        for grant in self._one_after_the_other():
            taken.append(grant)
            self._assert_is_there(taken)
        self.assertTrue(taken)
        after = Window.of(WINDOW.end, WINDOW.end + 3600)
        self.assertEqual(taken[0], self._plan(taken, after))

    def test_in_force(self) -> None:
        """A reservation in force keeps its shares when it is prolonged."""
        plugin = self.plugin()
        values = plugin.values(self.fields)
        first = self._plan([])
        longer = Window.of(WINDOW.start, WINDOW.end + 60)
        spec = ReservationSpec(
            "r", "p", plugin.values({}, values, started=True), first.shares, started=True)
        again, = planner.plan(self._pool([]), longer, [ReservationRequest(plugin, spec)])
        held = {share.host_id: share.slots for share in again.shares}
        for share in first.shares:
            self.assertGreaterEqual(held.get(share.host_id, 0), share.slots)
        self.assertEqual(first.amounts, again.amounts)

    # Hooks -------------------------------------------------------------------

    def test_hooks(self) -> None:
        """The hooks take a reservation in force, and its window."""
        plugin, ctx = self.plugin(), self.make_context()
        spec = ReservationSpec(
            f"a {plugin.resource_type}", "a project", plugin.values(self.fields),
            self._plan([]).shares, started=True)
        for hook in (plugin.started, plugin.before_end, plugin.ended):
            hook(ctx, spec, WINDOW)

    def _one_after_the_other(self) -> Iterator[Grant]:
        taken: list[Grant] = []
        for _ in range(_MANY):
            try:
                taken.append(self._plan(taken))
            except DoesNotFit as refusal:
                self.assertTrue(refusal.missing)
                self.assertTrue(str(refusal))
                return
            yield taken[-1]
        self.fail(f"{_MANY} reservations fit: choose fields of which fewer do")

    def _plan(self, taken: Sequence[Grant], window: Window = WINDOW) -> Grant:
        plugin = self.plugin()
        request = ReservationRequest(plugin, _spec(plugin, plugin.values(self.fields)))
        grant, = planner.plan(self._pool(taken), window, [request])
        return grant

    def _pool(self, taken: Sequence[Grant]) -> Pool:
        return Pool(
            HOSTS,
            Bookings.of_shares([
                (share, WINDOW.start, WINDOW.end) for grant in taken for share in grant.shares]),
            [AmountBooking((self.plugin().resource_type, what), WINDOW.start, WINDOW.end, amount)
             for grant in taken for what, amount in grant.amounts.items()])

    def _assert_is_there(self, taken: Sequence[Grant]) -> None:
        shares = [share for grant in taken for share in grant.shares]
        for host_id, size in zip(HOSTS.ids.tolist(), HOSTS.sizes.tolist(), strict=True):
            here = [share for share in shares if share.host_id == host_id]
            if any(share.whole for share in here):
                self.assertEqual(1, len(here))
                continue
            for column, capacity in enumerate(size):
                self.assertLessEqual(
                    sum(share.slots * share.size.amounts()[column] for share in here), capacity)
        for what, capacity in self.plugin().capacities().items():
            self.assertLessEqual(sum(grant.amounts.get(what, 0) for grant in taken), capacity)


def _spec(plugin: ReservationPlugin, values: Mapping[str, Any]) -> ReservationSpec:
    return ReservationSpec(f"a {plugin.resource_type}", "a project", values)


def _accepts(schema: Mapping[str, Any], fields: object) -> bool:
    return bool(jsonschema.Draft7Validator(schema).is_valid(fields))


def _plain(need: Demand) -> tuple[object, ...]:
    match need:
        case WholeHosts(minimum, maximum, hosts, topology):
            return minimum, maximum, hosts.tolist(), _plain_topology(topology)
        case Slots(Size() as size, amount, affinity, hosts, topology):
            return size, amount, affinity, hosts.tolist(), _plain_topology(topology)
        case Amounts(amounts):
            return tuple(sorted(amounts.items()))


def _plain_topology(topology: HostTopology) -> list[object]:
    return [
        None if level is None else (level.level, level.numbers.tolist(), list(level.names))
        for level in (topology.within, topology.pack_by, topology.spread_by)]
