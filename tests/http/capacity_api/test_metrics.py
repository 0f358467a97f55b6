"""/metrics: what requests leave there."""

from __future__ import annotations

import time

import fixtures

from placement_core import metrics
from placement_core.http.leases_api.representations import LEASE
from placement_core.reservations.manager import heartbeats
from placement_core.testing import factories
from tests import scraping
from tests.http import base
from tests.http.capacity_api.test_claims import ClaimsTestCase

_ON = {("metrics", "enabled"): True}


class TestMetrics(ClaimsTestCase):
    """``top`` and what is below it may use 8 VCPU; so every write is judged."""

    options = {**ClaimsTestCase.options, **_ON, ("quota", "guard"): "enforce",
               ("quota", "count_usage_from_placement"): True}

    def setUp(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        super().setUp()

    def page(self) -> str:
        response = self.ask("GET", "/metrics", token=None, version="bogus")
        self.assertEqual(200, response.status_int, response.text)
        self.assertEqual("text/plain", response.content_type)
        return response.text

    def numbers(self, name: str) -> scraping.Numbers:
        return scraping.counted(self.page, name)

    def put(self, amount: int) -> int:
        return self.ask("PUT", f"/allocations/{factories.new_uuid()}", {
            "allocations": {self.host: {"resources": {"VCPU": amount}}},
            "project_id": self.middle, "user_id": "bob", "consumer_generation": None,
            "consumer_type": "INSTANCE"}).status_int

    def test_decisions_of_the_guard(self) -> None:
        self.assertEqual([204, 204, 403], [self.put(amount) for amount in (2, 3, 4)])
        self.assertEqual({("enforce", "allowed"): 2, ("enforce", "refused"): 1},
                         self.numbers("guard_decisions_total"))

    def test_counts_of_usage(self) -> None:
        for _ in range(3):
            response = self.ask("POST", "/capacity/v1/quota/check", {
                "project_id": self.top, "deltas": {"class:VCPU": 1}}, version=None)
            self.assertEqual("placement", response.json["source"], response.text)
        self.assertEqual({("complete", "projects", "placement"): 3},
                         self.numbers("usage_counts_total"))
        sources = self.numbers("usage_source_seconds_count")
        self.assertEqual(3, sources["placement",])
        self.assertEqual(
            set(response.json["seconds"]), {source for (source,) in sources})

    def test_lives_of_claims(self) -> None:
        self.made(1)
        kept, given_back = (self.made(1, hold_seconds=60)["consumer_uuid"] for _ in range(2))
        for _ in range(2):  # The second time, nothing becomes of it.
            self.claims("POST", f"/{kept}/confirm", status=200)
        self.claims("DELETE", f"/{given_back}", status=204)
        self.claims("DELETE", f"/{given_back}", status=404)
        self.due(amount=5)
        self.claims("POST", "", self.body(7), status=403)
        self.assertEqual(
            {("taken",): 1, ("held",): 3, ("confirmed",): 1, ("released",): 1, ("expired",): 1},
            self.numbers("claims_total"))

    def test_gangs(self) -> None:
        for amount, members, status in ((1, 2, 201), (1, 7, 403), (17, 1, 409)):
            response = self.ask("POST", "/capacity/v1/claims", {"claim": {
                "project_id": self.middle, "user_id": "bob", "consumer_type": "INSTANCE",
                "find": {"members": members, "resources": {"VCPU": amount}}}}, version=None)
            self.assertEqual(status, response.status_int, response.text)
        self.assertEqual({("claimed",): 1, ("over_limit",): 1, ("no_room",): 1},
                         self.numbers("gang_searches_count"))
        self.assertEqual({("taken",): 2}, self.numbers("claims_total"))

    def test_requests(self) -> None:
        before = dict(self.numbers("http_request_seconds_count"))
        self.ask("GET", "/resource_providers")
        self.ask("GET", "/resource_providers", token=None)
        self.ask("GET", "/nothing/here")
        self.v3("GET", "/limits")
        self.claims("GET")
        for path in ("/healthcheck", "/readiness", "/metrics"):
            self.ask("GET", path, token=None)
        after = self.numbers("http_request_seconds_count")
        self.assertEqual(
            {("placement", "2xx"): 1, ("placement", "4xx"): 2, ("limits", "2xx"): 1,
             ("capacity", "2xx"): 1},
            {key: value - before.get(key, 0) for key, value in after.items()
             if value != before.get(key, 0)})

    def test_reads_that_are_answered_again_count(self) -> None:
        before = self.numbers("http_request_seconds_count").get(("limits", "2xx"), 0)
        for number in (1, 2, 3):
            self.v3("GET", "/limits", status=200)
            self.assertEqual(
                before + number, self.numbers("http_request_seconds_count")["limits", "2xx"])
            self.assertEqual(
                number,
                self.numbers("http_operation_seconds_count")["limits", "GET /v3/limits", "2xx"])

    def test_operations(self) -> None:
        """The template of the path, however it is spelled; none where the request met none."""
        before = self.numbers("http_operation_seconds_count")
        uuid = factories.new_uuid()
        for path in (f"/resource_providers/{uuid}", f"/resource_providers/{self.host}"):
            self.ask("GET", path)
        self.ask("PATCH", f"/resource_providers/{self.host}")
        self.ask("GET", "/resource_providers", token=None)
        self.v3("HEAD", "/limits/", status=200)
        show = "GET /resource_providers/{uuid}"
        after = self.numbers("http_operation_seconds_count")
        self.assertEqual(
            {("placement", show, "4xx"): 1, ("placement", show, "2xx"): 1,
             ("placement", "none", "4xx"): 2, ("limits", "GET /v3/limits", "2xx"): 1},
            {key: value - before.get(key, 0) for key, value in after.items()
             if value != before.get(key, 0)})

    def test_refusals(self) -> None:
        before = self.numbers("http_refusals_total")
        self.ask("GET", "/resource_providers", token=None)
        self.ask("PATCH", "/resource_providers")
        self.claims("POST", "", self.body(9), status=403)
        self.claims("GET", f"/{factories.new_uuid()}", status=404)
        after = self.numbers("http_refusals_total")
        self.assertEqual(
            {("placement.undefined_code", "401"): 1, ("placement.undefined_code", "405"): 1,
             ("placement.quota.exceeded", "403"): 1, ("claim.not_found", "404"): 1},
            {key: value - before.get(key, 0) for key, value in after.items()
             if value != before.get(key, 0)})


    def test_state_of_the_service(self) -> None:
        self.assertEqual(1, self.numbers("database_answers")[()])
        self.assertEqual(0, self.numbers("managers")[()])
        self.assertLess(0, self.numbers("index_providers")[()])

    def test_numbers_of_the_process(self) -> None:
        """The first request starts to note them."""
        self.ask("GET", "/resource_providers")
        deadline = time.monotonic() + 20
        while not self.numbers("threads").get((), 0):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(
            {(pool, state) for pool in ("writer", "snapshot", "autocommit", "reads")
             for state in ("in_use", "idle", "limit")} - {("reads", "limit")},
            self.numbers("database_connections").keys())

    def test_what_a_manager_sets(self) -> None:
        self.due(amount=6)
        tasks = {task.name: task for task in self.services.manager(LEASE)._tasks}
        for name in ("metrics of quota", "metrics of an audit", "heartbeat"):
            tasks[name].do(self.services.context())
        self.assertEqual(0.75, self.numbers("quota_fullest_ratio")["class:VCPU",])
        self.assertEqual({(percent, "class:VCPU"): 0 for percent in ("80", "95", "100")},
                         self.numbers("quota_projects_over"))
        self.assertEqual({(): 0}, self.numbers("audit_findings"))
        with self.services.database.writer.begin() as connection:
            connection.exec_driver_sql("UPDATE inventories SET used = used + 1")
        with fixtures.FakeLogger("placement_core.monitoring") as log:
            tasks["metrics of an audit"].do(self.services.context())
        self.assertLess(0, self.numbers("audit_findings")[()])
        self.assertIn("audit: used of", log.output)
        [manager] = heartbeats.list_(self.services.context(), most=9)
        self.assertEqual(self.numbers("audit_findings")[()], manager.audit_findings)
        self.assertIsNotNone(manager.audited_at)


class TestAudit(TestMetrics):
    options = {**TestMetrics.options, ("quota", "guard"): "audit"}

    def test_decisions_of_the_guard(self) -> None:
        self.assertEqual([204, 204, 204], [self.put(amount) for amount in (2, 3, 4)])
        self.assertEqual({("audit", "allowed"): 2, ("audit", "would_be_refused"): 1},
                         self.numbers("guard_decisions_total"))


class TestOff(base.HttpTestCase):
    def test_nothing_is_shown(self) -> None:
        self.assertEqual(401, self.ask("GET", "/metrics", token=None).status_int)
        self.assertEqual(404, self.ask("GET", "/metrics").status_int)
