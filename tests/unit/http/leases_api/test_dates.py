"""Dates in and out."""

from __future__ import annotations

import datetime

from placement_core.http.leases_api import dates
from placement_core.reservations.errors import InvalidLease
from tests import base


def _utc(*numbers: int) -> datetime.datetime:
    return datetime.datetime(*numbers, tzinfo=datetime.UTC)  # type: ignore[arg-type]


class TestParse(base.TestCase):
    def test_what_is_a_date(self) -> None:
        for text, expected in (
            ("2027-01-02 03:04", _utc(2027, 1, 2, 3, 4)),
            ("2027-1-2 3:4", _utc(2027, 1, 2, 3, 4)),
            ("2027-01-02 03:04:05", _utc(2027, 1, 2, 3, 4, 5)),
            ("2028-02-29 23:59:59", _utc(2028, 2, 29, 23, 59, 59)),
            ("2027-01-02T03:04", _utc(2027, 1, 2, 3, 4)),
            ("2027-01-02T03:04:05.000000", _utc(2027, 1, 2, 3, 4, 5)),
            ("9998-12-31 23:59", _utc(9998, 12, 31, 23, 59)),
            ("0001-01-01 00:00", _utc(1, 1, 1)),
        ):
            self.assertEqual(expected, dates.parse(text, "start_date"), text)

    def test_what_is_none(self) -> None:
        for text in (
            "", " ", "now", "NOW", "tomorrow", "2027-01-02", "03:04", "2027-13-01 00:00",
            "2027-02-29 00:00", "2027-01-32 00:00", "2027-01-02 24:00", "2027-01-02 00:60",
            "2027-01-02 00:00:60", "2027-01-02 00:00:00.5", "2027-01-02  00:00",
            " 2027-01-02 00:00", "2027-01-02 00:00\n", "2027-01-02 00:00Z",
            "2027-01-02T00:00:00+00:00", "9999-01-01 00:00",
            "0000-01-01 00:00", "27-01-02 00:00", "-2027-01-02 00:00", "12027-01-02 00:00",
            "2027/01/02 00:00", "٢٠٢٧-01-02 00:00", "2027-01-0２ 00:00", "1800000000",
        ):
            error = self.assertRaises(InvalidLease, dates.parse, text, "end_date")
            self.assertEqual("end_date", error.field, text)
            self.assertEqual(
                f"{text} is an invalid date. Required format: %Y-%m-%d %H:%M", str(error))

    def test_not_much_of_it_is_repeated(self) -> None:
        error = self.assertRaises(InvalidLease, dates.parse, "9" * 250, "end_date")
        self.assertEqual(
            "9" * 40 + " is an invalid date. Required format: %Y-%m-%d %H:%M", str(error))

    def test_now(self) -> None:
        self.assertIsNone(dates.parse_or_now("now", "start_date"))
        self.assertEqual(
            _utc(2027, 1, 1), dates.parse_or_now("2027-01-01 00:00", "start_date"))


class TestWrite(base.TestCase):
    def test_times_of_leases(self) -> None:
        for at, expected in (
            (_utc(2027, 1, 1), "2027-01-01T00:00:00.000000"),
            (_utc(2027, 12, 31, 23, 59, 58), "2027-12-31T23:59:58.000000"),
            (_utc(2027, 1, 1, 0, 0, 0, 5), "2027-01-01T00:00:00.000005"),
        ):
            self.assertEqual(expected, dates.format_lease_date(at))
            # As the client reads it.
            self.assertEqual(at.replace(tzinfo=None), datetime.datetime.strptime(
                dates.format_lease_date(at), "%Y-%m-%dT%H:%M:%S.%f"))

    def test_times_of_records(self) -> None:
        self.assertEqual("2027-01-02 03:04:05",
                         dates.format_record_date(_utc(2027, 1, 2, 3, 4, 5)))
        self.assertEqual(
            "2027-01-02 03:04:05.000006", dates.format_record_date(_utc(2027, 1, 2, 3, 4, 5, 6)))
        self.assertIsNone(dates.format_record_date(None))

    def test_what_is_written_can_be_sent_back(self) -> None:
        at = _utc(2027, 1, 2, 3, 4, 5)
        self.assertEqual(at, dates.parse(dates.format_lease_date(at), "start_date"))
