import datetime
import json
import logging
import threading

import fixtures
import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.reservations.errors import NoRoom, PolicyRefused
from placement_core.reservations.records import LeaseChange
from tests.functional.reservations import ruled
from tests.functional.reservations.lease_cases import HOUR, SECOND
from tests.http import served


class Judge:
    """A service that is asked about leases, and remembers what it was sent.

    :ivar sent: (path, document), in their order.
    :ivar answers: what it says; the last one again and again.
    """

    def __init__(self):
        self.sent = []
        self.answers = [("204 No Content", b"")]
        self.wait = threading.Event()
        self.wait.set()

    def __call__(self, environ, start_response):
        assert environ["REQUEST_METHOD"] == "POST"
        assert environ["CONTENT_TYPE"] == "application/json"
        assert environ.get("HTTP_X_AUTH_TOKEN") == "secret", environ
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        self.sent.append((environ["PATH_INFO"], json.loads(body)))
        self.wait.wait(10)
        status, said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        start_response(status, [("Content-Length", str(len(said)))])
        return [said]


class TestExternalService(ruled.RuledTestCase):
    def setUp(self):
        super().setUp()
        self.judge = Judge()
        self.addCleanup(self.judge.wait.set)
        self.url = self.useFixture(served.Served(self.judge)).url
        self.ask()

    def ask(self, **options):
        self.rule(**{
            f"enforcement__external_service_{name}": value for name, value in {
                "endpoint": f"{self.url}/v1/", "token": "secret",
                "auth_url": "https://cloud:5000/v3", "region_name": "RegionOne",
                **options}.items()})

    def only(self):
        [sent] = self.judge.sent
        return sent

    def described(self, lease, slots=1, extra=None):
        """Return what is told of the host of a lease's one reservation."""
        [[(host_id, _)]] = [each.items() for each in self.held(lease)]
        [name] = [row.name for row in self.rows(ruled.tables.computehosts) if row.id == host_id]
        return {"id": str(host_id), "hypervisor_hostname": name, "extra": extra or {},
                "slots": slots}

    def test_a_lease_is_made(self):
        self.capability("gpu", {row.id: "yes" for row in self.rows(ruled.tables.computehosts)})
        lease = self.create(
            self.instances(3, affinity=True), project=self.left, name="käse 🧀")
        path, sent = self.only()
        self.assertEqual("/v1/check-create", path)
        self.assertEqual({
            "context": {"user_id": "jane", "project_id": self.left,
                        "auth_url": "https://cloud:5000/v3", "region_name": "RegionOne"},
            "lease": {
                "name": "käse 🧀", "user_id": "jane", "project_id": self.left,
                "start_date": f"{self.at(0):%Y-%m-%d %H:%M:%S}",
                "end_date": f"{self.at(1):%Y-%m-%d %H:%M:%S}",
                "reservations": [{
                    "resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1,
                    "disk_gb": 1, "amount": 3, "affinity": True,
                    "allocations": [self.described(lease, 3, {"gpu": "yes"})]}]},
        }, sent)

    def test_a_lease_is_changed(self):
        lease = self.create(self.whole(before_end="default"), project=self.left)
        self.judge.sent.clear()
        self.change(lease, {"before_end": "snapshot"}, name="other", end_at=2)
        path, sent = self.only()
        self.assertEqual("/v1/check-update", path)
        fields = {"min": 1, "max": 1, "hypervisor_properties": "", "resource_properties": ""}
        common = {"id": lease.id, "user_id": "jane", "project_id": self.left,
                  "start_date": f"{self.at(0):%Y-%m-%d %H:%M:%S}"}
        self.assertEqual({
            **common, "name": "lease", "status": "PENDING", "trust_id": None,
            "end_date": f"{self.at(1):%Y-%m-%d %H:%M:%S}",
            "reservations": [{
                **fields, "id": lease.reservations[0].id, "resource_type": "physical:host",
                "status": "pending", "before_end": "default",
                "allocations": [self.described(lease)]}],
        }, sent["current_lease"])
        asked = sent["lease"]
        self.assertTrue(asked.pop("before_end_date"))
        self.assertEqual({
            **common, "name": "other", "end_date": f"{self.at(2):%Y-%m-%d %H:%M:%S}",
            "reservations": [{
                **fields, "resource_type": "physical:host", "before_end": "snapshot",
                "allocations": [self.described(lease)]}],
        }, asked)

    def test_once_for_each_request(self):
        """The transaction is repeated if limits have changed; the question is not."""
        self.register({"lease:vcpu_hours": 100})
        self.limit_after_prepare(self.left, 50)
        lease = self.create(self.instances(), project=self.left)
        self.only()
        self.judge.sent.clear()
        self.limit_after_prepare(self.trunk, 60)
        self.change(lease, end_at=2)
        self.only()

    def test_again_if_another_has_changed_the_lease(self):
        """What was allowed was another change."""
        lease = self.create(self.instances(), project=self.left)
        self.judge.sent.clear()
        prepare = self.rules.prepare

        def change_before(*arguments, **named):
            check = prepare(*arguments, **named)
            self.rules.prepare = prepare
            self.change(lease, end_at=3)
            return check

        self.rules.prepare = change_before
        self.change(lease, {"amount": 2})
        self.assertEqual(
            [(self.at(1), 2), (self.at(3), 1), (self.at(3), 2)],
            [(datetime.datetime.fromisoformat(f"{sent['lease']['end_date']}+00:00"),
              sent["lease"]["reservations"][0]["amount"]) for _, sent in self.judge.sent])

    def test_a_host_is_sent_once(self):
        """With what the lease has of it now, not with what it had before."""
        lease = self.back(self.started(self.instances(2, affinity=True), end=2), HOUR)
        lease = self.change(lease, {"amount": 3})
        self.judge.sent.clear()
        self.change(lease, end_at=3)
        _, sent = self.only()
        for name in ("current_lease", "lease"):
            [reservation] = sent[name]["reservations"]
            self.assertEqual(
                [3], [share["slots"] for share in reservation["allocations"]], name)
        self.judge.sent.clear()
        self.assertTrue(self.execute(lease, "end_lease"))
        [reservation] = self.only()[1]["lease"]["reservations"]
        self.assertEqual([3], [share["slots"] for share in reservation["allocations"]])

    def test_a_host_that_was_lost_is_not_sent(self):
        """It is none that the lease has, or that it ended with."""
        lease = self.back(self.started(self.whole(), end=2), HOUR)
        with db.write(self.ctx) as session:
            session.execute(sa.update(ruled.tables.computehost_allocations).values(
                end_second=int(self.now.timestamp()) - 60))
        self.judge.sent.clear()
        self.change(lease, {"before_end": "snapshot"})
        [reservation] = self.only()[1]["current_lease"]["reservations"]
        self.assertEqual([], reservation["allocations"])
        with db.write(self.ctx) as session:
            session.execute(sa.update(ruled.tables.computehost_allocations).values(
                end_second=int(self.now.timestamp()) - 60))
        self.judge.sent.clear()
        self.assertTrue(self.execute(lease, "end_lease"))
        [reservation] = self.only()[1]["lease"]["reservations"]
        self.assertEqual([], reservation["allocations"])

    def test_a_change_of_nothing_is_not_asked_about(self):
        lease = self.create(self.whole())
        self.judge.sent.clear()
        self.change(lease, end_at=1)
        self.leases.change(self.ctx, lease.id, LeaseChange(name="other"))
        self.assertEqual([], self.judge.sent)

    def test_a_lease_ends(self):
        pending = self.create(self.whole())
        lease = self.back(self.started(self.whole()), HOUR)
        self.judge.sent.clear()
        self.assertTrue(self.execute(lease, "end_lease"))
        path, sent = self.only()
        self.assertEqual("/v1/on-end", path)
        self.assertEqual({"context", "lease"}, set(sent))
        self.assertEqual(
            (lease.id, "TERMINATED", "deleted", [self.described(lease)]),
            (sent["lease"]["id"], sent["lease"]["status"],
             sent["lease"]["reservations"][0]["status"],
             sent["lease"]["reservations"][0]["allocations"]))
        self.leases.delete(self.ctx, pending.id)
        self.assertEqual(
            [lease.id, pending.id], [sent["lease"]["id"] for _, sent in self.judge.sent])

    def test_a_dry_run_is_asked_about_too(self):
        self.judge.answers = [("403 Forbidden", b'{"message": "no money"}')]
        self.assert_refused(
            PolicyRefused, self.leases.what_if, self.ctx, self.new(self.whole()))

    def test_a_dry_run_that_leaves_it_out(self):
        self.assertTrue(self.leases.asks_external_service)
        self.leases.what_if(self.ctx, self.new(self.whole()), ask_external=False)
        self.assertEqual([], self.judge.sent)
        self.rule(enforcement__external_service_endpoint=self.url,
                  enforcement__enabled_filters=["MaxLeaseDurationFilter"])
        self.assertFalse(self.leases.asks_external_service)

    def test_it_refuses(self):
        for body, said in (
                (b'{"message": "There is no money left."}', "There is no money left."),
                (b'{"message": 7}', "The lease was refused without a reason."),
                (b"[]", "The lease was refused without a reason."),
                (b"\xff", "The lease was refused without a reason.")):
            self.judge.answers = [("403 Forbidden", body)]
            refusal = self.assert_refused(PolicyRefused, self.create, self.whole())
            self.assertEqual(said, str(refusal))
        self.judge.answers = [("204 No Content", b"")]
        lease = self.create(self.whole())
        self.judge.answers = [("403 Forbidden", b'{"message": "no"}')]
        self.assert_refused(PolicyRefused, self.change, lease, end_at=2)

    def test_it_answers_something_else(self):
        for status in ("200 OK", "302 Found", "401 Unauthorized", "500 Internal Server Error"):
            self.judge.sent.clear()
            self.judge.answers = [(status, b"")]
            refusal = self.assert_refused(core_errors.Unavailable, self.create, self.whole())
            self.assertIn(f"answered {status[:3]}", str(refusal))
            self.only()

    def test_it_does_not_answer(self):
        self.ask(timeout_seconds=0.1)
        self.judge.wait.clear()
        refusal = self.assert_refused(core_errors.Unavailable, self.create, self.whole())
        self.assertIn("cannot be asked now", str(refusal))
        self.only()

    def test_there_is_none(self):
        self.ask(endpoint="http://127.0.0.1:9")
        self.assert_refused(core_errors.Unavailable, self.create, self.whole())

    def test_an_end_is_an_end_whoever_hears_of_it(self):
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        first, second = self.started(self.whole()), self.started(self.whole())
        self.judge.answers = [("500 Internal Server Error", b"")]
        self.assertTrue(self.execute(first, "end_lease"))
        self.ask(endpoint="http://127.0.0.1:9")
        self.assertTrue(self.execute(second, "end_lease"))
        self.assertEqual(
            ["TERMINATED"] * 2, [self.get(each).status for each in (first, second)])
        self.assertRegex(log.output, f"(?s){first.id} has ended.* answered 500.*"
                                     f"nobody was told that the lease {second.id} has ended")

    def test_it_is_not_asked_what_is_refused_anyway(self):
        self.ask()
        self.assert_refused(NoRoom, self.create, self.whole(4))
        self.rule(enforcement__external_service_endpoint=self.url,
                  enforcement__max_lease_duration=3600)
        self.assert_refused(
            PolicyRefused, self.create, self.whole(), end=self.at(1) + SECOND)
        self.assertEqual([], self.judge.sent)

    def test_addresses_of_its_own_for_each_question(self):
        self.ask(endpoint="", check_create=f"{self.url}/may/i")
        lease = self.create(self.whole())
        self.change(lease, end_at=2)
        self.leases.delete(self.ctx, lease.id)
        self.assertEqual("/may/i", self.only()[0])
        self.ask(check_update=f"{self.url}/change", on_end=f"{self.url}/over")
        lease = self.create(self.whole())
        self.change(lease, end_at=2)
        self.leases.delete(self.ctx, lease.id)
        self.assertEqual(["/v1/check-create", "/change", "/over"],
                         [path for path, _ in self.judge.sent[1:]])

    def test_without_its_filter(self):
        self.rule(enforcement__external_service_endpoint=self.url,
                  enforcement__enabled_filters=["MaxLeaseDurationFilter"])
        self.leases.delete(self.ctx, self.create(self.whole()).id)
        self.assertEqual([], self.judge.sent)
