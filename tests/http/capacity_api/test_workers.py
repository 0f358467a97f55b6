"""GET /capacity/v1/workers and /refusals: the processes that serve, and what they refused."""

from __future__ import annotations

import os

import fixtures

from placement_core import errors, services
from placement_core.testing import factories
from tests.http import base
from tests.http.base import HttpTestCase

_UNCODED = "placement.undefined_code"


class TestWorkers(HttpTestCase):
    options = {("workers", "report"): True}

    def setUp(self):
        # The test reports when it wants to.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter._PAUSE_SECONDS", 3600))
        super().setUp()
        self.addCleanup(self.parts[0].reporter.stop)

    def get(self, path, status=200, **options):
        response = self.ask("GET", f"/capacity/v1{path}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def list_refusals(self, query="", **options):
        self.parts[0].reporter.report()
        return self.get(f"/refusals{query}", **options)["refusals"]

    def test_workers(self):
        self.assertEqual({"workers": []}, self.get("/workers"))
        self.ask("GET", "/nothing")
        self.parts[0].reporter.report()
        [worker] = self.get("/workers")["workers"]
        self.assertEqual((os.getpid(), True, 0, 2, 1, 1, {_UNCODED: 1}), tuple(
            worker[name] for name in ("process_id", "alive", "in_flight", "requests", "refusals",
                                      "refusals_last_minute", "codes")))

    def test_refusals(self):
        """Whatever refuses a request, with what its caller was told."""
        ctx = self.parts[0].context()
        host = factories.provider(ctx, inventory={"VCPU": 1}).uuid
        body = {"allocations": {host: {"resources": {"VCPU": 4}}}, "project_id": "p",
                "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
        self.ask("GET", "/nothing", token="joan:web")
        self.ask("GET", "/resource_providers", token=None)
        answers = [
            self.ask("PUT", f"/allocations/{factories.new_uuid()}", body) for _ in range(2)]
        self.ask("GET", "/resource_providers", token="joan:web")
        self.ask("POST", "/resource_providers", b"{")
        self.ask("GET", "/resource_providers")
        refusals = {(refusal["operation"], refusal["status"]): refusal
                    for refusal in self.list_refusals()}
        self.assertEqual({
            ("GET", 404): ("web", "joan", 1), ("GET", 401): (None, None, 1),
            ("PUT /allocations/{consumer}", 409): ("admin", "admin", 2),
            ("GET /resource_providers", 403): ("web", "joan", 1),
            ("POST /resource_providers", 400): ("admin", "admin", 1)}, {
                key: tuple(refusal[name] for name in ("project_id", "user_id", "times"))
                for key, refusal in refusals.items()})
        full = refusals["PUT /allocations/{consumer}", 409]
        self.assertEqual(answers[1].headers["x-openstack-request-id"], full["request_id"])
        self.assertEqual(answers[1].json["errors"][0]["code"], full["code"])
        self.assertIn(host, full["detail"])
        self.assertEqual(1, len(self.list_refusals("?limit=1")))

    def break_reads(self, error):
        """Let a read fail with an error."""
        def fail(*_arguments, **_options):
            raise error

        self.useFixture(fixtures.MonkeyPatch("placement_core.changes.audit.list_", fail))
        self.useFixture(fixtures.FakeLogger())

    def test_defects(self):
        """A failure tells nothing of internals."""
        self.break_reads(ZeroDivisionError("internals"))
        self.get("/audit", 500)
        [refusal] = self.list_refusals()
        self.assertEqual((500, _UNCODED, None), tuple(
            refusal[name] for name in ("status", "code", "detail")))

    def test_secrets(self):
        """What a client sent, and is told again, is repeated without its secrets."""
        long_url = f"mysql://nova:{'sesame' * 1000}@db/nova"
        self.break_reads(errors.Invalid(f"no mysql://nova:sesame@db/nova, nor {long_url}"))
        self.get("/audit", 400)
        [refusal] = self.list_refusals()
        self.assertEqual("no mysql://***@db/nova, nor", refusal["detail"])

    def test_long_and_odd_texts(self):
        """Each is cut, and one line."""
        response = self.ask(
            "GET", "/resource_providers", token=f"jo\u0007an{'x' * 300}:{'p' * 300}")
        self.assertEqual(403, response.status_int)
        self.ask("GET", f"/capacity/v1/usages?limit={'y' * 1000}", version=None)
        refusals = self.list_refusals()
        self.assertEqual(2, len(refusals))
        for refusal in refusals:
            for name, value in refusal.items():
                if isinstance(value, str):
                    self.assertLessEqual(len(value), 255, name)
                    self.assertTrue(value.isprintable(), name)

    def test_who_may_ask(self):
        """Workers are for administrators; readers see the refusals of their own project."""
        self.ask("GET", "/resource_providers", token="joan:web")
        self.ask("GET", "/resource_providers", token="mary:shop")
        reader = {"token": "jane:web", "headers": {"x-roles": "reader"}}
        [refusal] = self.list_refusals("?project_id=web", **reader)
        self.assertEqual(("web", "joan"), (refusal["project_id"], refusal["user_id"]))
        for path in ("/workers", "/refusals", "/refusals?project_id=shop"):
            self.get(path, 403, **reader)
        for path in ("/workers?x=1", "/refusals?x=1", "/refusals?project_id="):
            self.get(path, 400)
        for path in ("/workers", "/refusals"):
            self.get(path, token="joan:web", headers={"x-roles": "service"})


class TestWhoReports(HttpTestCase):

    def test_option(self):
        """Left out, it is that of the dashboard."""
        for options, reports in (
                ({}, False), ({("dashboard", "enabled"): True}, True),
                ({("dashboard", "enabled"): True, ("workers", "report"): False}, False),
                ({("workers", "report"): True}, True)):
            conf = base.configuration(self.connection())
            conf.clear_default("report", "workers")
            for (group, name), value in options.items():
                conf.set_override(name, value, group)
            self.assertEqual(reports, services.build(conf).reporter is not None, options)
