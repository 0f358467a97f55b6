"""What a lease is when it begins to be, and after a change."""

from __future__ import annotations

import dataclasses

from placement_core.plugin_api.reservations import ReservationSpec, Share, Size, Window
from placement_core.reservations import records
from placement_core.reservations.leases import updates
from placement_core.reservations.leases.dates import LeaseDates
from placement_core.reservations.records import NewLease
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_plugins.reservations.instance import InstanceReservations
from tests import base
from tests.unit.reservations.leases.lease_records import NOW, hours, lease, reservation

_DATES = LeaseDates(Window(hours(1), hours(3)), hours(2.5))


class TestNewLease(base.TestCase):
    def made(self, lease_dates):
        requests = [ReservationRequest(
            InstanceReservations(None), ReservationSpec("r1", "p", {"amount": 2}))]
        new = NewLease("mine", "p", "u", None, hours(3), [])
        return updates.new_lease(new, lease_dates, requests, NOW)

    def test_it_waits_for_its_start(self):
        made = self.made(_DATES)
        self.assertEqual(("mine", records.PENDING, hours(1), hours(3), False), (
            made.name, made.status, made.start_at, made.end_at, made.degraded))
        [only] = made.reservations
        self.assertEqual(("r1", made.id, "virtual:instance", records.R_PENDING, {"amount": 2}), (
            only.id, only.lease_id, only.resource_type, only.status, only.fields))

    def test_events(self):
        self.assertEqual(
            [(records.START, hours(1)), (records.BEFORE_END, hours(2.5)), (records.END, hours(3))],
            [(event.event_type, event.due_at) for event in self.made(_DATES).events])
        unannounced = self.made(LeaseDates(_DATES.window, None))
        self.assertEqual([records.START, records.END],
                         [event.event_type for event in unannounced.events])


class TestChanges(base.TestCase):
    def changed(self, before, name=None, dates=_DATES, **fields):
        return updates.apply_change(before, name, dates, fields, NOW)

    def test_nothing_changes(self):
        before = lease()
        self.assertEqual(before, self.changed(before))
        self.assertEqual(before, self.changed(before, name="mine"))

    def test_a_name(self):
        before = lease()
        self.assertEqual(dataclasses.replace(before, name="yours", updated_at=NOW),
                         self.changed(before, name="yours"))

    def test_fields(self):
        after = self.changed(lease(reservation("r1"), reservation("r2")), r2={"amount": 5})
        self.assertEqual([({"amount": 2}, None), ({"amount": 5}, NOW)],
                         [(each.fields, each.updated_at) for each in after.reservations])

    def test_only_events_that_move_are_armed_again(self):
        before = lease()
        before = dataclasses.replace(before, events=[
            dataclasses.replace(event, status=records.DONE) for event in before.events])
        after = self.changed(before, dates=LeaseDates(Window(hours(1), hours(5)), hours(4.5)))
        self.assertEqual(
            [("start_lease-event", records.DONE), ("before_end_lease-event", records.UNDONE),
             ("end_lease-event", records.UNDONE)],
            [(event.id, event.status) for event in after.events])

    def test_an_end_that_failed_gets_another_one(self):
        failed = lease(reservation(status=records.R_ACTIVE), status=records.ERROR)
        later = LeaseDates(Window(hours(1), hours(5)), hours(4.5))
        self.assertEqual(records.ERROR, self.changed(failed, name="yours").status)
        self.assertEqual(records.ACTIVE, self.changed(failed, dates=later).status)
        never_begun = lease(status=records.ERROR)
        self.assertEqual(records.ERROR, self.changed(never_begun, dates=later).status)


class TestNeeds(base.TestCase):
    def test_who_needs_no_more_is_not_planned_again(self):
        before = lease()
        for start, end, expected in ((1, 3, True), (2, 3, True), (1, 2, True), (0, 3, False),
                                     (1, 4, False), (2, 5, False)):
            after = dataclasses.replace(before, start_at=hours(start), end_at=hours(end))
            self.assertEqual(expected, updates.fits_in_present_shares(before, after), (start, end))
        other = dataclasses.replace(before, reservations=[reservation(fields={"amount": 1})])
        self.assertFalse(updates.fits_in_present_shares(before, other))

    def test_nothing_is_missing_any_more(self):
        whole = lease()
        self.assertIs(whole, updates.clear_missing_resources(whole))
        hurt = lease(reservation(missing_resources=True), reservation("r2"), degraded=True)
        healed = updates.clear_missing_resources(hurt)
        self.assertEqual((False, [False, False]), (
            healed.degraded, [each.missing_resources for each in healed.reservations]))

    def test_holding_something_else(self):
        one, two = Share(1, 2, Size(1, 1, 1)), Share(2, 2, Size(1, 1, 1))
        for before, after, expected in (
            ([one], Grant([one]), False), ([one], Grant([one, two]), True),
            ([one], Grant([]), True), ([], Grant(amounts={"licences": 1}), True),
        ):
            change = updates.ShareChange(reservation(), before, after)
            self.assertEqual(expected, change.differs, (before, after))
