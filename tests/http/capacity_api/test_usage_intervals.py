"""GET /capacity/v1/usage/intervals and /usage/totals: who held what, from when to when."""

from __future__ import annotations

import csv
import io

from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase

_PATH = "/capacity/v1/usage/intervals"
_TOTALS = "/capacity/v1/usage/totals"


class IntervalsTestCase(HttpTestCase):

    def setUp(self):
        super().setUp()
        self.ctx = self.parts[0].context()
        self.host = factories.provider(
            self.ctx, inventory={"VCPU": 100, "MEMORY_MB": 8192}).uuid

    def claim(self, project, **resources):
        uuid = factories.new_uuid()
        response = self.ask("PUT", f"/allocations/{uuid}", {
            "allocations": {self.host: {"resources": resources}}, "project_id": project,
            "user_id": "jane", "consumer_type": "INSTANCE", "consumer_generation": None})
        self.assertEqual(204, response.status_int, response.text)
        return uuid

    def get(self, path, status=200, **options):
        response = self.ask("GET", path, version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response


@databases.on_each_database
class TestIntervals(IntervalsTestCase):

    def test_an_interval(self):
        uuid = self.claim("web", VCPU=2)
        [interval] = self.get(_PATH).json["intervals"]
        self.assertRegex(interval.pop("started_at"), r"^\d{4}-\d\d-\d\dT.*\+00:00$")
        self.assertEqual({
            "consumer_uuid": uuid, "consumer_type": "INSTANCE", "project_id": "web",
            "user_id": "jane", "provider_uuid": self.host, "resource_class": "VCPU",
            "amount": 2, "ended_at": None}, interval)

    def test_pages_and_filters(self):
        uuids = sorted(self.claim("web", VCPU=1, MEMORY_MB=2) for _ in range(3))
        self.claim("data", VCPU=1)
        page = self.get(f"{_PATH}?project_id=web&resource_class=VCPU&limit=2").json
        last = self.get(page["links"]["next"]).json
        self.assertEqual(uuids, [each["consumer_uuid"]
                                 for each in page["intervals"] + last["intervals"]])
        self.assertIsNone(last["links"]["next"])
        self.assertEqual([], self.get(f"{_PATH}?to=2020-01-01").json["intervals"])
        self.assertEqual([], self.get(f"{_PATH}?from=9998-01-01T00:00:00Z&user_id=joan").json[
            "intervals"])

    def test_csv(self):
        for _ in range(3):
            self.claim('the "web", 2', VCPU=1)
        response = self.get(f"{_PATH}?format=csv&limit=2", headers={"Accept": "text/csv"})
        self.assertEqual("text/csv", response.headers["Content-Type"])
        rows = list(csv.DictReader(io.StringIO(response.text)))
        self.assertEqual(['the "web", 2'] * 2, [row["project_id"] for row in rows])
        self.assertEqual({""}, {row["ended_at"] for row in rows})
        link = response.headers["Link"]
        self.assertTrue(link.endswith('>; rel="next"'), link)
        response = self.get(link[1:link.index(">")])
        self.assertNotIn("Link", response.headers)
        self.assertEqual(2, len(response.text.splitlines()))

    def test_totals(self):
        self.claim("web", VCPU=3)
        uuid = self.claim("web", VCPU=4, MEMORY_MB=5)
        self.assertEqual(204, self.ask("DELETE", f"/allocations/{uuid}").status_int)
        totals = self.get(f"{_TOTALS}?project_id=web").json["totals"]
        self.assertEqual({("web", "VCPU"), ("web", "MEMORY_MB")}, {
            (total["project_id"], total["resource_class"]) for total in totals})
        response = self.get(f"{_TOTALS}?format=csv&resource_class=VCPU")
        self.assertEqual("project_id,resource_class,amount_seconds",
                         response.text.splitlines()[0])


class TestRefusals(IntervalsTestCase):

    def test_bad_queries(self):
        for query in ("from=yesterday", "to=0001-01-01", "from=2027-02-30", "to=9999-12-31",
                      "from=2027-01-01T00:00:00%2B25:00", "limit=0", "format=xml", "x=1",
                      "user_id=", "from="):
            for path in (_PATH, _TOTALS):
                self.get(f"{path}?{query}", status=400)
        for marker in ("x", "1.2", "1.2%00.x"):
            self.get(f"{_PATH}?marker={marker}", status=400)

    def test_who_may_ask(self):
        reader = {"headers": {"x-auth-token": "joan:web", "x-roles": "reader"}}
        self.get(_PATH, status=403, **reader)
        self.get(f"{_PATH}?project_id=web", status=403, **reader)
        self.get(f"{_TOTALS}?project_id=data", status=403, **reader)
        self.get(_TOTALS, status=403, **reader)
        self.get(f"{_TOTALS}?project_id=web", **reader)
