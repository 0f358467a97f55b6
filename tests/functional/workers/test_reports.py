"""What a worker reports about itself, and about the requests that it refused."""

from __future__ import annotations

import datetime
import gc
import os
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import errors
from placement_core.placement.index import CapacityIndex
from placement_core.testing import factories
from placement_core.workers import reporter as reports, store, tables
from placement_core.workers.records import Cause
from placement_core.workers.reporter import RefusedRequest, WorkerReporter
from tests import base, databases, threads


class ReportsTestCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        # Tests report when they want to.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter._PAUSE_SECONDS", 3600))
        self.index = CapacityIndex(self.database)
        self.reporter = self.make_reporter()

    def make_reporter(self):
        reporter = WorkerReporter(self.context, self.index)
        self.addCleanup(self.end, reporter)
        return reporter

    def end(self, reporter):
        """Stop a reporter, whose thread then reports into this test's database."""
        if reporter._ended.is_set():
            return
        others = len(self.find_threads()) - reporter._is_running
        reporter.stop()
        deadline = time.monotonic() + 10
        while len(self.find_threads()) > others and time.monotonic() < deadline:
            time.sleep(0.01)

    def find_threads(self):
        return [thread for thread in threading.enumerate()
                if thread.name == "reports of a worker"]

    def refuse(self, operation="PUT /x", *, reporter=None, status=409, code="code.of", project="p",
               user="jane", request_id="req-1", detail="no room", seconds_ago=0):
        reporter = reporter or self.reporter
        reporter.begin_request()
        reporter.end_request(RefusedRequest(
            Cause(operation, status, code, project, user), time.monotonic() - seconds_ago,
            request_id, detail))

    def count_rows(self):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(tables.refusals))

    def list_operations(self, **options):
        return [refusal.cause.operation
                for refusal in store.list_refusals(self.ctx, 100, **options)]


@databases.on_each_database
class TestReports(ReportsTestCase):

    def test_worker(self):
        """How it does, with its index as it is: nobody brings that up to date for a report."""
        for refused in (False, True):
            self.reporter.begin_request()
            self.reporter.end_request(None)
            if refused:
                self.refuse()
        self.reporter.begin_request()
        self.assertTrue(self.reporter.report())
        [worker] = store.list_workers(self.ctx, 10)
        self.assertEqual((os.getpid(), None, None, 1, 4, 1, 1, {"code.of": 1}, True), (
            worker.process_id, worker.index_read_at, worker.index_providers, worker.in_flight,
            worker.requests, worker.refusals, worker.refusals_last_minute, worker.codes,
            worker.is_alive))
        self.assertFalse(self.reporter.report())
        factories.provider(self.ctx, inventory={"VCPU": 8})
        self.index.snapshot(self.ctx)
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter.EVERY_SECONDS", 0))
        self.assertTrue(self.reporter.report())
        [again] = store.list_workers(self.ctx, 10)
        self.assertEqual(1, again.index_providers)
        self.assertLessEqual(abs((again.seen_at - again.index_read_at).total_seconds()), 2)
        self.assertLess(worker.seen_at, again.seen_at)
        self.assertEqual((worker.uuid, worker.started_at), (again.uuid, again.started_at))

    def test_refusals(self):
        """The newest first; equal ones are one, which has the last of them."""
        self.refuse("PUT /x", request_id="req-1", detail="one", seconds_ago=30)
        self.refuse("GET /y", status=503, project=None, user=None, detail=None, seconds_ago=20)
        self.refuse("PUT /x", request_id="req-2", detail="käse 🧀", seconds_ago=10)
        self.reporter.report()
        newest, oldest = store.list_refusals(self.ctx, 10)
        self.assertEqual(Cause("PUT /x", 409, "code.of", "p", "jane"), newest.cause)
        self.assertEqual((2, "req-2", "käse 🧀"), (
            newest.times, newest.request_id, newest.detail))
        self.assertLessEqual(abs((newest.at - newest.first_at).total_seconds() - 20), 1)
        self.assertEqual((Cause("GET /y", 503, "code.of", None, None), None), (
            oldest.cause, oldest.detail))
        self.assertEqual([newest], store.list_refusals(self.ctx, 1))

    def test_refusals_of_several_workers(self):
        """Equal ones count together; those of a project are those of its callers."""
        other = self.make_reporter()
        self.refuse("PUT /x", request_id="old", seconds_ago=20)
        self.refuse("PUT /x", request_id="new", reporter=other)
        self.refuse("PUT /y", project="q", reporter=other)
        before = store.digest_refusals(self.ctx)
        for reporter in (self.reporter, other):
            reporter.report()
        self.assertNotEqual(before, store.digest_refusals(self.ctx))
        self.assertEqual(2, len(store.list_workers(self.ctx, 10)))
        [refusal] = store.list_refusals(self.ctx, 10, project_id="p")
        self.assertEqual((2, "new"), (refusal.times, refusal.request_id))
        self.assertLessEqual(19, (refusal.at - refusal.first_at).total_seconds())
        self.assertEqual(["PUT /y"], self.list_operations(project_id="q"))
        self.assertEqual([], self.list_operations(project_id="\0"))
        self.assertEqual(2, len(self.list_operations()))

    def test_digest(self):
        """It differs after a late report, too, and after one that takes a slot of another."""
        other = self.make_reporter()
        self.refuse(reporter=other)
        other.report()
        digests = [store.digest_refusals(self.ctx)]
        for number in range(reports.MOST_REFUSALS + 1):
            self.refuse(f"PUT /{number}", seconds_ago=600 - number)
            self.reporter.report()
            digests.append(store.digest_refusals(self.ctx))
        self.assertEqual(len(digests), len(set(digests)))
        self.assertEqual(digests[-1], store.digest_refusals(self.ctx))

    def test_flood(self):
        """However many are refused: a bounded number of rows, and all are counted."""
        for number in range(3 * reports._MOST_WAITING):
            self.refuse(f"PUT /{number}", code=f"code.{number}")
        self.reporter.report()
        self.assertEqual(reports.MOST_WRITTEN, self.count_rows())
        self.assertEqual(
            {f"PUT /{3 * reports._MOST_WAITING - 1 - number}"
             for number in range(reports.MOST_WRITTEN)}, set(self.list_operations()))
        while self.reporter.report():
            self.assertLessEqual(self.count_rows(), reports.MOST_REFUSALS)
        self.assertEqual(reports.MOST_REFUSALS, self.count_rows())
        self.refuse("PUT /last")
        self.reporter.report()
        self.assertEqual(reports.MOST_REFUSALS, self.count_rows())
        self.assertEqual("PUT /last", self.list_operations()[0])
        [worker] = store.list_workers(self.ctx, 10)
        self.assertEqual(3 * reports._MOST_WAITING + 1, worker.refusals)
        self.assertEqual(20, len(worker.codes))
        self.assertEqual("other", next(iter(worker.codes)))

    def test_old_refusals(self):
        """They are not read after an hour, and removed with a later report."""
        self.refuse("PUT /old", seconds_ago=store.KEEP_SECONDS - 1)
        self.refuse("PUT /new")
        self.reporter.report()
        self.assertEqual(2, self.count_rows())
        time.sleep(1.1)
        self.assertEqual(["PUT /new"], self.list_operations())
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter.EVERY_SECONDS", 0))
        self.reporter.report()
        self.assertEqual(1, self.count_rows())

    def test_workers_that_are_gone(self):
        """They are there for an hour, with what they refused."""
        other = self.make_reporter()
        for reporter in (self.reporter, other):
            self.refuse(reporter=reporter)
            reporter.report()
        newest, gone = store.list_workers(self.ctx, 10)
        for seconds, listed, removed in ((61, [True, False], 0), (3601, [True], 1)):
            with self.database.autocommit.connect() as connection:
                connection.execute(sa.update(tables.workers).where(
                    tables.workers.c.uuid == gone.uuid).values(
                        seen_at=newest.seen_at.replace(tzinfo=None)
                        - datetime.timedelta(seconds=seconds)))
            self.assertEqual(listed, [
                worker.is_alive for worker in store.list_workers(self.ctx, 10)])
            self.assertEqual(removed, store.forget(self.ctx))
        self.assertEqual(1, self.count_rows())

    def test_farewell(self):
        """Who ends in order is no worker any more; what it refused stays for its hour."""
        other = self.make_reporter()
        for reporter in (self.reporter, other):
            self.refuse(reporter=reporter)
            reporter.report()
        self.refuse("PUT /last")
        uuids = {worker.uuid for worker in store.list_workers(self.ctx, 10)}
        self.end(self.reporter)
        [left] = store.list_workers(self.ctx, 10)
        self.assertEqual(1, len(uuids - {left.uuid}))
        self.assertEqual({"PUT /x", "PUT /last"}, set(self.list_operations()))
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.refusals).where(
                tables.refusals.c.worker_uuid != left.uuid).values(
                    at=datetime.datetime(2026, 1, 1)))
        self.assertEqual(0, store.forget(self.ctx))
        self.assertEqual(1, self.count_rows())

    def test_farewell_of_a_worker_without_requests(self):
        self.reporter.stop()
        self.reporter.leave()
        self.assertEqual([], self.find_threads())

    def test_database_away(self):
        """It is logged once, and nothing is lost."""
        contexts = [errors.Unavailable("away")] * 2

        def make_context():
            if contexts:
                raise contexts.pop()
            return self.context()

        reporter = WorkerReporter(make_context, self.index)
        self.addCleanup(self.end, reporter)
        self.refuse(reporter=reporter)
        self.assertEqual([False, False, True], [reporter.report() for _ in range(3)])
        self.assertEqual(1, self.log.output.count("cannot report: away"))
        self.assertEqual(["PUT /x"], self.list_operations())


class TestThreads(ReportsTestCase):

    def test_thread(self):
        """It begins with the first request, and ends with the reporter."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter._PAUSE_SECONDS", 0.01))
        before = set(self.find_threads())
        reporter = WorkerReporter(self.context, self.index)
        self.assertEqual(before, set(self.find_threads()))
        self.refuse(reporter=reporter)
        [thread] = set(self.find_threads()) - before
        deadline = time.monotonic() + 10
        while not self.list_operations() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(["PUT /x"], self.list_operations())
        del reporter
        gc.collect()
        thread.join(10)
        self.assertFalse(thread.is_alive())

    def test_a_thread_that_cannot_be_started(self):
        """The request goes on, and the next one starts the thread."""
        before = len(self.find_threads())
        self.useFixture(threads.NoThread())
        self.reporter.begin_request()
        self.assertIn("cannot report", self.log.output)
        self.assertEqual(before, len(self.find_threads()))
        self.reporter.begin_request()
        self.assertEqual(before + 1, len(self.find_threads()))
        self.reporter.report()
        [worker] = store.list_workers(self.ctx, 10)
        self.assertEqual(2, worker.in_flight)

    def test_fork(self):
        """A process that was forked from one that served is another worker."""
        self.refuse()
        self.reporter.report()
        self.database.dispose()
        child = os.fork()
        if not child:
            try:
                self.refuse("PUT /child")
                os._exit(0 if self.reporter.report() else 1)
            finally:
                os._exit(2)
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        self.assertEqual({os.getpid(): 1, child: 1}, {
            worker.process_id: worker.refusals for worker in store.list_workers(self.ctx, 10)})
        self.assertEqual({"PUT /x", "PUT /child"}, set(self.list_operations()))
