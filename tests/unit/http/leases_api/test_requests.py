"""What bodies ask the domain for, and what they lack."""

from __future__ import annotations

import datetime
from typing import Any

from placement_core.context import Identity
from placement_core.http.errors import NotAllowed
from placement_core.http.leases_api import requests
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.records import (
    ChangedReservation,
    LeaseChange,
    NewLease,
    NewReservation,
)
from tests import base

_JANE = Identity("jane", "demo", ("member",))
_HOST = {"resource_type": "physical:host", "min": 1, "max": 1}
_JUNE, _AUGUST = "2027-06-01 00:00", "2027-08-14 00:00"


def _at(month: int, day: int) -> datetime.datetime:
    return datetime.datetime(2027, month, day, tzinfo=datetime.UTC)


class TestNewLease(base.TestCase):
    def ask(self, caller: Identity = _JANE, **body: Any) -> NewLease:
        return requests.parse_new_lease(body, caller, "rule")

    def test_all_of_it(self) -> None:
        self.assertEqual(
            NewLease(
                name="a", project_id="demo", user_id="jane", start_at=_at(6, 1),
                end_at=_at(8, 14), before_end_at=_at(8, 13),
                reservations=[NewReservation("physical:host", {"min": 1, "max": 1})]),
            self.ask(name="a", start_date=_JUNE, end_date=_AUGUST, events=[],
                     before_end_date="2027-08-13 00:00", reservations=[_HOST]))

    def test_the_names_of_the_seed(self) -> None:
        """``start`` and ``end``."""
        expected = self.ask(
            name="a", start_date=_JUNE, end_date=_AUGUST, reservations=[_HOST])
        self.assertEqual(
            expected, self.ask(name="a", start=_JUNE, end=_AUGUST, reservations=[_HOST]))

    def test_now(self) -> None:
        new = self.ask(name="a", start_date="now", end_date=_AUGUST, before_end_date=None,
                       reservations=[_HOST])
        self.assertEqual((None, None), (new.start_at, new.before_end_at))

    def test_what_is_missing(self) -> None:
        good = {"name": "a", "start_date": _JUNE, "end_date": _AUGUST, "reservations": [_HOST]}
        for without, said in (
            (("name",), "name"),
            (("start_date",), "start_date"),
            (("end_date",), "end_date"),
            (("start_date", "end_date"), "start_date, end_date"),
            (tuple(good), "name, start_date, end_date"),
            (("reservations",), "reservations"),
        ):
            body = {key: value for key, value in good.items() if key not in without}
            error = self.assertRaises(InvalidLease, self.ask, **body)
            self.assertEqual(f"Missing parameter {said}", str(error))
            self.assertEqual(said.partition(",")[0], error.field)
        for reservations, said in (
            ([], "reservations"), ([{}], "resource_type"),
            ([_HOST, {"min": 1}], "resource_type"), ([{"resource_type": ""}], "resource_type"),
        ):
            error = self.assertRaises(
                InvalidLease, self.ask, **{**good, "reservations": reservations})
            self.assertEqual(f"Missing parameter {said}", str(error))

    def test_dates(self) -> None:
        for fields, said in (
            ({"start_date": "x"}, "x is an invalid date. Required format: %Y-%m-%d %H:%M"),
            ({"end_date": ""}, " is an invalid date. Required format: %Y-%m-%d %H:%M"),
            ({"before_end_date": "now"},
             "now is an invalid date. Required format: %Y-%m-%d %H:%M"),
            ({"before_end_date": ""}, " is an invalid date. Required format: %Y-%m-%d %H:%M"),
            ({"end_date": "now"}, "End date must be later than start date."),
            ({"start": _JUNE}, "start_date and start are the same: one of them is enough"),
            ({"end": _JUNE}, "end_date and end are the same: one of them is enough"),
        ):
            body = {"name": "a", "start_date": _JUNE, "end_date": _AUGUST,
                    "reservations": [_HOST], **fields}
            self.assertEqual(said, str(self.assertRaises(InvalidLease, self.ask, **body)))

    def test_nobody_s(self) -> None:
        """Who has no project has no leases, administrators neither."""
        body = {"name": "a", "start_date": _JUNE, "end_date": _AUGUST, "reservations": [_HOST]}
        for caller in (Identity(), Identity("jane", None, ("admin",)), Identity(None, "demo")):
            self.assertRaises(NotAllowed, self.ask, caller, **body)


class TestLeaseChange(base.TestCase):
    def test_what_changes(self) -> None:
        for body, expected in (
            ({"name": "b"}, LeaseChange(name="b", reservations=[])),
            ({"start_date": _JUNE}, LeaseChange(start_at=_at(6, 1), reservations=[])),
            ({"end": _AUGUST, "events": []}, LeaseChange(end_at=_at(8, 14), reservations=[])),
            ({"start_date": "now"}, LeaseChange(start_now=True, reservations=[])),
            ({"end_date": "now"}, LeaseChange(end_now=True, reservations=[])),
            ({"before_end_date": "2027-08-13 00:00"},
             LeaseChange(before_end_at=_at(8, 13), reservations=[])),
            ({"reservations": [{"id": "r", "amount": 3}]},
             LeaseChange(reservations=[ChangedReservation("r", None, {"amount": 3})])),
            ({"reservations": [{"id": "r", "resource_type": "virtual:instance"}]},
             LeaseChange(reservations=[ChangedReservation("r", "virtual:instance", {})])),
        ):
            self.assertEqual(expected, requests.parse_lease_change(body), body)

    def test_refused(self) -> None:
        for body, said in (
            ({}, "No data to update"),
            ({"events": [], "before_end_date": None, "reservations": []}, "No data to update"),
            ({"reservations": [{"amount": 3}]}, "Missing parameter reservation ID"),
            ({"reservations": [{"id": "", "amount": 3}]}, "Missing parameter reservation ID"),
            ({"start_date": "x"}, "x is an invalid date. Required format: %Y-%m-%d %H:%M"),
            ({"start_date": _JUNE, "start": _JUNE},
             "start_date and start are the same: one of them is enough"),
        ):
            error = self.assertRaises(InvalidLease, requests.parse_lease_change, body)
            self.assertEqual(said, str(error))


class TestHost(base.TestCase):
    def test_new(self) -> None:
        self.assertEqual(("c1", {}), requests.parse_new_host({"name": "c1"}))
        self.assertEqual(("7", {"gpu": "x"}), requests.parse_new_host({"id": 7, "gpu": "x"}))
        for body, said in (
            ({}, "Missing parameter name"), ({"gpu": "x"}, "Missing parameter name"),
            ({"name": "a", "id": "a"}, "name and id mean the same: one of them is enough"),
        ):
            self.assertEqual(
                said, str(self.assertRaises(InvalidLease, requests.parse_new_host, body)))

    def test_change(self) -> None:
        asked = requests.parse_host_change({
            "gpu": "x", "ssd": None, "name": "c1", "reservable": "False", "down_reason": "fan"})
        self.assertEqual(
            requests.HostChange({"gpu": "x", "ssd": None}, "c1", False, "fan"), asked)
        for said, expected in ((True, True), (False, False), ("True", True), ("false", False)):
            self.assertIs(expected, requests.parse_host_change({"reservable": said}).reservable)
        self.assertIsNone(requests.parse_host_change({"gpu": "x"}).reservable)
