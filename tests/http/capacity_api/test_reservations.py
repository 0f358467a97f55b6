"""/capacity/v1/reservations/…: would a lease fit, when, and what is free over time."""

from __future__ import annotations

import datetime
import json
import urllib.parse
from typing import Any

import webob

from placement_core.http.capacity_api import views
from tests.http.leases_api.cases import LeasesTestCase, date, instance, whole

_PATH = "/capacity/v1/reservations"


def _out(days: float) -> str:
    """Return ``date`` of so many days as answers write it."""
    return f"{date(days).replace(' ', 'T')}:00+00:00"


class ReservationsTestCase(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host("c1")
        self.host("c2", vcpus=4)

    def capacity(
        self, method: str, path: str, body: Any = None, *, status: int = 200,
        token: str = "jane:demo", roles: str = "member",
    ) -> webob.Response:
        """Send one request; ``path`` is below /capacity/v1/reservations."""
        response = self.ask(method, f"{_PATH}{path}", body, version=None, token=token,
                            headers={"X-Roles": roles})
        self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response

    def next_fit(self, *reservations: Any, status: int = 200, **query: Any) -> Any:
        text = urllib.parse.urlencode({"reservations": json.dumps(reservations), **query})
        return self.capacity("GET", f"/next_fit?{text}", status=status).json


class TestWhatIf(ReservationsTestCase):
    def test_as_a_lease(self) -> None:
        """The answers are those of POST /v1/leases; nothing is written."""
        self.lease(instance(vcpus=8))
        before = self.rows()
        for body, status in (
            (self.body(), 200), (self.body(instance(vcpus=8)), 409), (self.body(whole()), 200),
            (self.body(whole(min=2, max=2)), 409), (self.body(instance(vcpus=0)), 400),
            (self.body(start_date=date(-1)), 400), (self.body(project_id="lab"), 400),
            (self.body(before_end_date=date(9)), 403), ({}, 400), ([], 400), (b"{", 400),
        ):
            response = self.capacity("POST", "/whatif", body, status=status)
            if status == 200:
                self.assertEqual({"fits": True}, response.json)
        self.assertEqual(before, self.rows())

    def test_a_refusal(self) -> None:
        """What is missing, during which part, and when the same lease fits."""
        self.lease(instance(vcpus=6), start_date=date(2), end_date=date(3))
        response = self.capacity("POST", "/whatif", self.body(
            instance(vcpus=8), start_date=date(1), end_date=date(4)), status=409)
        [error] = response.json["errors"]
        self.assertEqual("reservations.no_room", error["code"])
        self.assertEqual(1, error["missing"]["slots"])
        self.assertEqual({"start_at": _out(2), "end_at": _out(3)}, error["during"])
        self.assertEqual(_out(3), error["fits_at"])
        self.assertIn(f"The same lease fits from {date(3)} on.", error["detail"])

    def test_never(self) -> None:
        [error] = self.capacity("POST", "/whatif", self.body(
            whole(min=3, max=3)), status=409).json["errors"]
        self.assertEqual((None, {"hosts": 1}), (error["fits_at"], error["missing"]))


class TestTimeline(ReservationsTestCase):
    def test_without_names(self) -> None:
        self.lease(instance(vcpus=2), start_date=date(1), end_date=date(2), name="secret",
                   token="bob:lab")
        self.lease(whole(), start_date=date(2), end_date=date(3), token="bob:lab")
        query = urllib.parse.urlencode({"start": date(0.5), "end": date(4)})
        response = self.capacity("GET", f"/timeline?{query}")
        self.assertNotIn(b"secret", response.body)
        self.assertNotIn(b"lab", response.body)
        self.assertEqual(
            {"hosts": 2, "vcpus": 12, "memory_mb": 32768, "disk_gb": 400},
            response.json["total"])
        steps = response.json["timeline"]
        self.assertEqual([(_out(0.5), _out(1)), (_out(1), _out(2)), (_out(2), _out(3)),
                          (_out(3), _out(4))],
                         [(step["start_at"], step["end_at"]) for step in steps])
        self.assertEqual(
            {"start_at": _out(3), "end_at": _out(4), "hosts": 2, "vcpus": 12,
             "memory_mb": 32768, "disk_gb": 400}, steps[3])
        self.assertEqual((1, 10, 31744, 390), tuple(
            steps[1][key] for key in ("hosts", "vcpus", "memory_mb", "disk_gb")))
        self.assertEqual(1, steps[2]["hosts"])

    def test_pages(self) -> None:
        """A pool with many leases has many steps: an answer has so many at most."""
        for day in (1, 3, 5):
            self.lease(whole(), start_date=date(day), end_date=date(day + 1))
        start, end = date(0.5), date(7)
        whole_query = urllib.parse.urlencode({"start": start, "end": end})
        document = self.capacity("GET", f"/timeline?{whole_query}").json
        self.assertEqual((7, None), (len(document["timeline"]), document["links"]["next"]))
        self.patch(views.reservations, "_STEPS", 3)
        for limit, sizes in (("", [3, 3, 1]), ("&limit=2", [2, 2, 2, 1]), ("&limit=9", [3, 3, 1])):
            found, lengths, query = [], [], f"{whole_query}{limit}"
            while query is not None:
                page = self.capacity("GET", f"/timeline?{query}").json
                found += page["timeline"]
                lengths.append(len(page["timeline"]))
                query = page["links"]["next"] and page["links"]["next"].partition("?")[2]
            self.assertEqual((sizes, document["timeline"]), (lengths, found))
        self.capacity("GET", f"/timeline?{whole_query}&limit=0", status=400)

    def test_a_year_from_now(self) -> None:
        [step] = self.capacity("GET", "/timeline").json["timeline"]
        start, end = (datetime.datetime.fromisoformat(step[key])
                      for key in ("start_at", "end_at"))
        self.assertEqual(datetime.timedelta(days=365), end - start)
        self.assertLess(abs(datetime.datetime.now(datetime.UTC) - start),
                        datetime.timedelta(minutes=1))

    def test_malformed(self) -> None:
        for query in ("start=x", "end=", "color=red", f"start={date(2)}&end={date(1)}",
                      f"start={date(1)}&end={date(1)}", "start=9999-01-01 00:00",
                      f"end={date(-1)}"):
            self.capacity("GET", f"/timeline?{query.replace(' ', '%20')}", status=400)
        for start in ("9998-12-31", "0001-01-01"):
            self.capacity("GET", f"/timeline?start={start}%2000:00")


class TestNextFit(ReservationsTestCase):
    def test_when(self) -> None:
        self.lease(instance(vcpus=8), start_date=date(1), end_date=date(2))
        for query in ({"minutes": 60}, {"seconds": 3600}):
            found = self.next_fit(instance(vcpus=8), start=date(1.5), **query)["next_fit"]
            self.assertEqual({"start_at": _out(2), "end_at": _out(2 + 1 / 24),
                              "earliest": True}, found)
        found = self.next_fit(instance(vcpus=8), whole(), minutes=60, start="now")["next_fit"]
        self.assertLess(found["start_at"], _out(1))
        self.assertIsNone(self.next_fit(instance(vcpus=9), minutes=60)["next_fit"])

    def test_malformed(self) -> None:
        before = self.rows()
        for reservations, query in (
            ([], {"minutes": 1}), ([instance()], {}), ([instance()], {"minutes": 0}),
            ([instance()], {"minutes": -1}), ([instance()], {"minutes": "x"}),
            ([instance()], {"minutes": 1, "seconds": 60}), ([instance()], {"minutes": 1.5}),
            ([instance()], {"seconds": 10**11}), ([instance()], {"minutes": 10**20}),
            ([instance()], {"minutes": 1, "start": "x"}), ([{}], {"minutes": 1}),
            ([instance()], {"minutes": 1, "color": "red"}), ([5], {"minutes": 1}),
            ([instance(vcpus=-1)], {"minutes": 1}), ([instance(name="x")], {"minutes": 1}),
        ):
            self.next_fit(*reservations, **query, status=400)
        for text in ("", "x", "{}", "null", "%5b", "%ff", "%5b" * 3000):
            self.capacity("GET", f"/next_fit?minutes=1&reservations={text}", status=400)
        self.capacity("GET", "/next_fit?minutes=1", status=400)
        self.assertEqual(before, self.rows())


class TestWhoMay(ReservationsTestCase):
    def test_who_may_lease(self) -> None:
        for method, path, body in (
            ("POST", "/whatif", self.body()), ("GET", "/timeline", None),
            ("GET", "/next_fit?minutes=1&reservations=" + urllib.parse.quote(
                json.dumps([instance()])), None),
        ):
            for roles, status in (("member", 200), ("admin", 200), ("reader", 200), ("", 403)):
                self.capacity(method, path, body, roles=roles, status=status)
            # A service may know what is free; it leases nothing.
            self.capacity(method, path, body, roles="service",
                          status=200 if path == "/timeline" else 403)


class TestHistory(ReservationsTestCase):
    def test_who_held_what(self) -> None:
        """Also when the lease was deleted; nothing of what was never in force."""
        lease = self.lease(instance(amount=2, affinity=True), start_date="now", name="first")
        self.lease(name="later")
        self.assertEqual(["start_lease"], self.carry_out_due())
        [found] = self.capacity("GET", "/history", roles="admin").json["history"]
        self.assertEqual(
            ("first", lease["id"], "demo", "jane", "virtual:instance", 2, False, False,
             {"vcpus": 1, "memory_mb": 1024, "disk_gb": 10}),
            tuple(found[key] for key in (
                "lease_name", "lease_id", "project_id", "user_id", "resource_type", "slots",
                "whole", "ended", "size")))
        self.assertIn(found["host_name"], ("c1", "c2"))
        for query, expected in (
            ("project_id=demo", 1), ("project_id=lab", 0), ("host=c9", 0),
            (f"host={found['host_name']}", 1), (f"start={date(-1)}&end={date(1)}", 1),
            (f"start={date(9)}", 0), (f"end={date(-1)}", 0),
        ):
            history = self.capacity(
                "GET", f"/history?{query.replace(' ', '%20')}", roles="admin").json["history"]
            self.assertEqual(expected, len(history), query)
        self.v1("DELETE", f"/leases/{lease['id']}", status=204)
        # What was given back in the second in which it began was held by nobody.
        for each in self.capacity("GET", "/history", roles="admin").json["history"]:
            self.assertEqual((lease["id"], True, True),
                             (each["lease_id"], each["ended"], each["deleted"]))

    def test_pages(self) -> None:
        self.lease(whole(min=2, max=2), start_date="now")
        self.assertEqual(["start_lease"], self.carry_out_due())
        document = self.capacity("GET", "/history?limit=1", roles="admin").json
        self.assertTrue(document["links"]["next"].startswith(f"{_PATH}/history?"))
        rest = self.capacity("GET", document["links"]["next"].removeprefix(_PATH),
                             roles="admin").json
        self.assertIsNone(rest["links"]["next"])
        self.assertEqual({"c1", "c2"}, {
            each["host_name"] for each in document["history"] + rest["history"]})

    def test_malformed(self) -> None:
        for query in ("limit=0", "marker=x", "start=x", "color=red", "host="):
            self.capacity("GET", f"/history?{query}", roles="admin", status=400)
        for roles in ("member", "reader", ""):
            self.capacity("GET", "/history", roles=roles, status=403)


class TestNotices(ReservationsTestCase):
    def test_what_was_done(self) -> None:
        lease = self.lease(name="first")
        self.v1("PUT", f"/leases/{lease['id']}", {"name": "second"}, status=200)
        self.lease(token="bob:lab")
        document = self.capacity("GET", "/notices?limit=2", roles="admin").json
        self.assertEqual([("lease.create", "first"), ("lease.update", "second")], [
            (each["event"], each["lease"]["name"]) for each in document["notices"]])
        self.assertEqual({lease["id"]}, {each["lease_id"] for each in document["notices"]})
        path = document["links"]["next"].removeprefix(_PATH)
        document = self.capacity("GET", path, roles="admin").json
        self.assertEqual(["lab"], [each["project_id"] for each in document["notices"]])
        # There is always a next page: what is done later is on it.
        path = document["links"]["next"].removeprefix(_PATH)
        self.assertEqual([], self.capacity("GET", path, roles="admin").json["notices"])
        self.v1("DELETE", f"/leases/{lease['id']}", status=204)
        found = self.capacity("GET", path, roles="admin").json["notices"]
        self.assertEqual("lease.delete", found[-1]["event"])

    def test_readers_of_a_project(self) -> None:
        self.lease()
        self.lease(token="bob:lab")
        found = self.capacity("GET", "/notices?project_id=demo", roles="reader").json["notices"]
        self.assertEqual(["demo"], [each["project_id"] for each in found])
        for query in ("", "?project_id=lab"):
            self.capacity("GET", f"/notices{query}", roles="reader", status=403)
        for query in ("limit=0", "marker=x", "marker=-1", "color=red", "lease_id="):
            self.capacity("GET", f"/notices?{query}", roles="admin", status=400)


class TestRetry(ReservationsTestCase):
    def test_an_event_that_failed(self) -> None:
        lease = self.lease(start_date="now")
        [start] = self.starts(lease)
        path = f"/events/{start['id']}/retry"
        self.capacity("POST", path, roles="admin", status=409)
        [turn] = self.due()
        self.assertTrue(self.services.transitions.fail(self.ctx, turn, "the fan is broken"))
        lease = self.shown(lease)
        self.assertEqual(("ERROR", "ERROR"), (
            lease["status"], self.starts(lease)[0]["status"]))
        self.capacity("POST", path, status=403)
        self.capacity("POST", path, roles="admin", status=204)
        self.assertEqual("UNDONE", self.starts(self.shown(lease))[0]["status"])
        self.assertEqual(["start_lease"], self.carry_out_due())
        self.assertEqual("ACTIVE", self.shown(lease)["status"])
        self.capacity("POST", "/events/x/retry", roles="admin", status=404)

    def starts(self, lease: Any) -> list[Any]:
        return [each for each in lease["events"] if each["event_type"] == "start_lease"]
