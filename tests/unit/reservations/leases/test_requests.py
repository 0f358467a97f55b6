"""What clients ask of leases, checked by plugins."""

from __future__ import annotations

from placement_core.plugin_api.reservations import InvalidReservation, NotChangeable
from placement_core.reservations import records
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.leases.requests import LeaseRequests, changes_other_than
from placement_core.reservations.records import (
    ChangedReservation,
    LeaseChange,
    NewReservation,
)
from placement_plugins.reservations.instance import InstanceReservations
from tests import base
from tests.unit.reservations.leases.lease_records import hours, lease, reservation

_TYPE = "virtual:instance"
_GIVEN = {"vcpus": 1, "memory_mb": 512, "disk_gb": 0, "amount": "2"}
_FIELDS = {"vcpus": 1, "memory_mb": 512, "disk_gb": 0, "amount": 2, "affinity": None,
           "resource_properties": ""}


class RequestsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.requests = LeaseRequests({_TYPE: InstanceReservations(None)}, max_reservations=2)


class TestNewReservations(RequestsTestCase):
    def test_fields_of_the_plugin(self):
        first, second = self.requests.check("p", [NewReservation(_TYPE, _GIVEN)] * 2)
        self.assertEqual((_FIELDS, "p", (), False), (
            first.spec.values, first.spec.project_id, first.spec.held, first.spec.started))
        self.assertNotEqual(first.spec.reservation_id, second.spec.reservation_id)

    def test_how_many(self):
        for number in (0, 3):
            self.assertRaises(InvalidLease, self.requests.check, "p",
                              [NewReservation(_TYPE, _GIVEN)] * number)

    def test_what_makes_no_sense(self):
        self.assertRaises(InvalidLease, self.requests.check, "p", [NewReservation("x", _GIVEN)])
        self.assertRaises(InvalidReservation, self.requests.check, "p",
                          [NewReservation(_TYPE, {**_GIVEN, "amount": 0})])


class TestChanges(RequestsTestCase):
    def setUp(self):
        super().setUp()
        self.lease = lease(reservation("r1", fields=_FIELDS), reservation("r2", fields=_FIELDS))

    def changed(self, *reservations):
        return self.requests.find_changed_fields(
            self.lease, LeaseChange(reservations=[
                ChangedReservation(id_, type_, given) for id_, type_, given in reservations]))

    def test_only_what_differs(self):
        self.assertEqual({}, self.changed(("r1", None, {"amount": 2})))
        self.assertEqual({"r2": {**_FIELDS, "amount": 3}}, self.changed(
            ("r1", _TYPE, {}), ("r2", None, {"amount": 3})))

    def test_reservations_that_it_does_not_have(self):
        for ids in (("x",), ("",), ("r1", "r1")):
            self.assertRaises(
                InvalidLease, self.changed, *((id_, None, {"amount": 3}) for id_ in ids))

    def test_another_type(self):
        self.assertRaises(InvalidLease, self.changed, ("r1", "physical:host", {}))

    def test_one_in_error(self):
        self.lease = lease(reservation("r1", fields=_FIELDS, status=records.R_ERROR))
        self.assertEqual({}, self.changed(("r1", None, {"amount": 2})))
        self.assertRaises(NotChangeable, self.changed, ("r1", None, {"amount": 3}))

    def test_as_it_would_be_asked_for(self):
        new = self.requests.build_new_lease(self.lease, LeaseChange(
            name="yours", end_at=hours(4),
            reservations=[ChangedReservation("r2", None, {"amount": 3})]))
        self.assertEqual(("yours", hours(1), hours(4), hours(2.5), [2, 3]), (
            new.name, new.start_at, new.end_at, new.before_end_at,
            [each.raw_fields["amount"] for each in new.reservations]))
        self.assertIsNone(
            self.requests.build_new_lease(self.lease, LeaseChange(start_now=True)).start_at)

    def test_changes_other_than(self):
        for change, names, expected in (
            (LeaseChange(name="x"), ("name",), False),
            (LeaseChange(name="x", end_now=True), ("name",), True),
            (LeaseChange(name="x", end_now=True), ("name", "end_now"), False),
            (LeaseChange(), (), False),
        ):
            self.assertEqual(expected, changes_other_than(change, *names), change)
