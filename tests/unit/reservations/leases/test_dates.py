"""Which dates make sense for leases."""

from __future__ import annotations

import datetime

from placement_core.plugin_api.reservations import Window
from placement_core.reservations import records
from placement_core.reservations.errors import InvalidLease, OutOfLimits
from placement_core.reservations.leases import dates
from placement_core.reservations.leases.dates import LeaseDates
from placement_core.reservations.records import LeaseChange, NewLease
from tests import base
from tests.unit.reservations.leases.lease_records import NOW, hours, lease

_SECOND = datetime.timedelta(seconds=1)


def _new(start_at, end_at, before_end_at=None):
    return NewLease("mine", "p", "u", start_at, end_at, [], before_end_at)


class TestNewLeases(base.TestCase):
    def resolved(self, *times, minutes=0):
        return dates.resolve_new(_new(*times), NOW, minutes)

    def test_from_now_on(self):
        self.assertEqual(LeaseDates(Window(NOW, hours(1)), None), self.resolved(None, hours(1)))

    def test_whole_seconds(self):
        half = datetime.timedelta(milliseconds=500)
        self.assertEqual(Window(hours(1), hours(2)),
                         self.resolved(hours(1) + half, hours(2) + half).window)

    def test_the_present_minute_is_now(self):
        begun = NOW.replace(second=0)
        self.assertEqual(NOW, self.resolved(begun, hours(1)).window.start_at)
        self.assertRaises(InvalidLease, self.resolved, begun - _SECOND, hours(1))

    def test_an_end_that_makes_no_sense(self):
        for end_at in (hours(1), hours(-1), datetime.datetime(5000, 1, 1, tzinfo=datetime.UTC)):
            self.assertRaises(InvalidLease, self.resolved, hours(1), end_at)

    def test_before_the_end(self):
        for minutes, given, expected in (
            (0, None, None), (30, None, hours(1.5)), (600, None, hours(1)),
            (30, hours(1.75), hours(1.75)),
        ):
            found = self.resolved(hours(1), hours(2), given, minutes=minutes)
            self.assertEqual(expected, found.before_end_at, (minutes, given))

    def test_before_the_end_is_within_the_lease(self):
        for at in (hours(1), hours(2), hours(3)):
            self.assertRaises(OutOfLimits, self.resolved, hours(1), hours(2), at)


class TestChanges(base.TestCase):
    def resolved(self, now=NOW, status=records.PENDING, **change):
        return dates.resolve_change(lease(status=status), LeaseChange(**change), now)

    def test_nothing(self):
        self.assertEqual(
            LeaseDates(Window(hours(1), hours(3)), hours(2.5)), self.resolved(name="other"))

    def test_it_is_announced_as_long_before_its_end(self):
        self.assertEqual(hours(4.5), self.resolved(end_at=hours(5)).before_end_at)
        self.assertEqual(hours(1), self.resolved(end_at=hours(1.25)).before_end_at)
        self.assertEqual(hours(2), self.resolved(before_end_at=hours(2)).before_end_at)

    def test_an_end_in_the_present_minute(self):
        """It means now, where a lease can end now."""
        for end_at, status, expected in (
            (hours(1.5).replace(second=0), records.ACTIVE, True),
            (hours(1.5), records.ACTIVE, True),
            (hours(1.5) + _SECOND, records.ACTIVE, False),
            (hours(1.5).replace(second=0) - _SECOND, records.ACTIVE, False),
            (hours(1.5), records.PENDING, False),
            (None, records.ACTIVE, False),
        ):
            self.assertEqual(expected, dates.is_end_now(
                lease(status=status), LeaseChange(end_at=end_at), hours(1.5)))

    def test_a_start_that_was(self):
        for change in ({"start_now": True}, {"start_at": hours(2)}):
            self.assertRaises(
                InvalidLease, self.resolved, now=hours(1.5), status=records.ACTIVE, **change)
        self.assertEqual(hours(1), self.resolved(
            now=hours(1.5), status=records.ACTIVE, start_at=hours(1)).window.start_at)

    def test_the_minute_of_a_start_that_was(self):
        """Clients send minutes, and repeat the start of a lease that began within one."""
        minute = hours(1).replace(second=0)
        for now, status in ((hours(1.5), records.ACTIVE), (hours(1.5), records.PENDING),
                            (hours(1), records.PENDING)):
            self.assertEqual(hours(1), self.resolved(
                now=now, status=status, start_at=minute).window.start_at)
        for start_at in (minute - 60 * _SECOND, minute + 60 * _SECOND, minute + _SECOND):
            self.assertRaises(InvalidLease, self.resolved, now=hours(1.5), start_at=start_at,
                              status=records.ACTIVE)
        # One that is to come may be earlier.
        self.assertEqual(minute, self.resolved(start_at=minute).window.start_at)

    def test_another_start(self):
        self.assertEqual(NOW, self.resolved(start_now=True).window.start_at)
        self.assertEqual(hours(2), self.resolved(start_at=hours(2)).window.start_at)

    def test_an_end_that_was(self):
        for end_at in (hours(1), hours(0.5)):
            self.assertRaises(InvalidLease, self.resolved, end_at=end_at)
        self.assertRaises(InvalidLease, self.resolved, now=hours(2), status=records.ACTIVE,
                          end_at=hours(1.5))


class TestFits(base.TestCase):
    def test_durations(self):
        dates.check_fit(None, 1)
        dates.check_fit(hours(1), 3600)
        for seconds in (0, -1, 10**12):
            self.assertRaises(InvalidLease, dates.check_fit, None, seconds)
        self.assertRaises(InvalidLease, dates.check_fit,
                          datetime.datetime(5000, 1, 1, tzinfo=datetime.UTC), 1)
