"""The audit: who changed what, in the transaction of the change."""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import audit, kinds, tables
from placement_core.changes.audit import AuditFilter
from placement_core.changes.journal import Journal
from placement_core.context import Context, Identity
from placement_core.db.database import Database
from placement_core.db.session import RecordedChange
from placement_core.placement import allocations, errors, providers, resource_classes, traits
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from tests import base, databases
from tests.round_trips import RoundTrips, Statements

_ALL = 1000


class AuditTestCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        # Hosts come from elsewhere, so that the log has only what a test does.
        self.host = factories.provider(self.ctx, name="host", inventory={"VCPU": 100})
        self.audited = Database(self.database.settings, Journal(audits=True))
        self.addCleanup(self.audited.dispose)
        self.owners = Owners()

    def call(self, user="jane", operation="PUT /allocations/{consumer}", request="req-1"):
        return Context(self.audited, Identity(user, f"{user}'s"), request, operation=operation)

    def write(self, uuid, amount=1, seen=None):
        return AllocationWrite(
            uuid, {self.host.uuid: {"VCPU": amount}}, "project", "user", "INSTANCE", seen)

    def list(self, **filters):
        return audit.list_(self.ctx, AuditFilter(**filters), limit=_ALL)

    def objects(self, **filters):
        return [(each.kind, each.uuid, each.name) for each in reversed(self.list(**filters))]


@databases.on_each_database
class TestAudit(AuditTestCase):

    def test_a_claim(self):
        uuid = factories.new_uuid()
        allocations.replace(self.call(), [self.write(uuid)], owners=self.owners)
        self.assertEqual([("consumer", uuid, None)], self.objects())
        for entry in self.list():
            self.assertEqual(
                ("jane", "jane's", "req-1", "PUT /allocations/{consumer}"),
                (entry.user_id, entry.project_id, entry.request_id, entry.operation))

    def test_the_usage_of_a_host_follows_from_its_consumers(self):
        """A host is in the audit if its inventory is written, too."""
        uuid, other = factories.new_uuid(), factories.provider(self.ctx, name="other")
        allocations.replace(self.call(), [self.write(uuid)], owners=self.owners)
        resources = {"VCPU": InventoryValues(total=8)}
        allocations.reshape(
            self.call(operation="POST /reshaper"), {other.uuid: (other.generation, resources)},
            [dataclasses.replace(
                self.write(uuid, seen=1), allocations={other.uuid: {"VCPU": 1}})],
            owners=self.owners)
        self.assertEqual(
            [("consumer", uuid, None), ("provider", other.uuid, "other")],
            self.objects(operation="POST /reshaper"))

    def test_a_transaction_has_one_time(self):
        """So its objects come in the order in which they were numbered."""
        with db.write(self.call()) as session:
            for number in range(20):
                session.record_change(kinds.RESOURCE_CLASS, number + 1)
                session.record_change(kinds.LEASE, uuid=f"lease{number}")
        entries = self.list()
        self.assertEqual(40, len(entries))
        self.assertEqual(1, len({entry.at for entry in entries}))

    def test_the_changes_of_the_log_are_of_the_same_transaction(self):
        allocations.replace(self.call(), [self.write(factories.new_uuid())], owners=self.owners)
        [txn] = {entry.txn for entry in self.list()}
        with self.database.autocommit.connect() as connection:
            of_txn = connection.scalars(
                sa.select(tables.changes.c.kind).where(tables.changes.c.txn == txn)).all()
        self.assertIn("consumer", of_txn)
        self.assertEqual([txn], list(audit.read_transactions(self.ctx, [txn, 1])))
        self.assertEqual({}, audit.read_transactions(self.ctx, []))

    def test_it_is_off_by_default(self):
        allocations.replace(self.ctx, [self.write(factories.new_uuid())])
        self.assertEqual([], self.list())

    def test_what_is_refused_is_not_recorded(self):
        self.assertRaises(
            errors.CapacityExceeded, allocations.replace, self.call(),
            [self.write(factories.new_uuid(), 1000)], owners=self.owners)
        self.assertEqual([], self.list())

    def test_what_is_deleted_has_its_name(self):
        host = factories.provider(self.ctx, name="gone")
        resource_classes.create(self.ctx, "CUSTOM_GONE")
        traits.ensure(self.ctx, "CUSTOM_TRAIT")
        providers.delete(self.call(), host.uuid)
        resource_classes.delete(self.call(), "CUSTOM_GONE")
        traits.delete(self.call(), "CUSTOM_TRAIT")
        self.assertEqual(
            [("provider", host.uuid, "gone"), ("resource_class", None, "CUSTOM_GONE"),
             ("trait", None, "CUSTOM_TRAIT")], self.objects())

    def test_a_write_that_changes_nothing_of_a_kind(self):
        with db.write(self.call(operation="POST /v3/regions")) as session:
            session.record_change(kinds.REVISION, 0)
        self.assertEqual([(None, None, None)], self.objects(operation="POST /v3/regions"))

    def test_more_objects_than_one_statement_inserts(self):
        uuids = sorted(factories.new_uuid() for _ in range(60))
        allocations.replace(self.call(), [self.write(uuid) for uuid in uuids], owners=self.owners)
        self.assertEqual(uuids, [uuid for kind, uuid, _ in self.objects(kind="consumer")])

    def test_texts_that_are_too_long(self):
        allocations.replace(
            self.call("x" * 300, operation="y" * 300), [self.write(factories.new_uuid())],
            owners=self.owners)
        self.assertEqual({"x" * 255}, {entry.user_id for entry in self.list()})

    def test_requests_that_share_a_transaction(self):
        writes = {}
        for user in ("jane", "joan", "eve"):
            writes[user] = self.write(factories.new_uuid(), 1000 if user == "eve" else 1)
        self.owners.ensure(self.call(), list(writes.values()))
        outcomes = grouped_writes.apply_together(
            self.call("leader"), [
                GroupedWrite(WriteRequest([write]), [], self.call(user, request=f"req-{user}"))
                for user, write in writes.items()], [], self.owners, Shortages())
        self.assertEqual(["applied", "applied"], outcomes[:2])
        for user in ("jane", "joan"):
            self.assertEqual(
                [("consumer", writes[user].consumer_uuid, None)],
                self.objects(request_id=f"req-{user}"))
        self.assertEqual(1, len({entry.txn for entry in self.list()}))
        self.assertEqual({"jane", "joan"}, {entry.user_id for entry in self.list()})

    def test_callers_that_have_much_in_common(self):
        """What all rows have comes once, on PostgreSQL; what some have comes with each."""
        for users, operations in (
                (["jane", "jane", "jane"], ["GET /x"] * 3), (["jane", "joan"], ["GET /x"] * 2),
                (["jane", "jane"], ["GET /x", "PUT /x"]), ([None, "jane"], ["GET /x"] * 2)):
            uuids = [factories.new_uuid() for _ in users]
            with db.write(self.call()) as session:
                for user, operation, uuid in zip(users, operations, uuids, strict=True):
                    session.record_change(kinds.CONSUMER, uuid=uuid)
                    session.attribute(
                        Context(self.audited, Identity(user, "demo"), f"req-{uuid}",
                                operation=operation),
                        [RecordedChange(kinds.CONSUMER, uuid=uuid)])
            self.assertEqual(
                [(user, "demo", operation, f"req-{uuid}", uuid)
                 for user, operation, uuid in zip(users, operations, uuids, strict=True)],
                [(entry.user_id, entry.project_id, entry.operation, entry.request_id, entry.uuid)
                 for entry in reversed(self.list()) if entry.txn == session.txn])

    def test_texts_with_quotes(self):
        """Those of several callers are the texts of arrays, on PostgreSQL."""
        callers = ['o"ne', "t\\wo", "{three},", "NULL"]
        with db.write(self.call()) as session:
            for name in callers:
                session.record_change(kinds.LIMIT, uuid=name)
                session.attribute(self.call(name), [RecordedChange(kinds.LIMIT, uuid=name)])
        self.assertEqual(
            callers, [entry.user_id for entry in reversed(self.list(kind="limit"))])

    def test_objects_that_have_no_names(self):
        with db.write(self.call()) as session:
            session.record_change(kinds.REVISION, 0)
            for user in ("jane", "joan"):
                session.attribute(self.call(user), [RecordedChange(kinds.REVISION)])
        self.assertEqual([(None, None, None)] * 2, self.objects())
        self.assertEqual(["jane", "joan"], [entry.user_id for entry in reversed(self.list())])

    def test_it_takes_no_round_trip(self):
        trips = RoundTrips(self.audited)
        allocations.replace(self.call(), [self.write(factories.new_uuid())], owners=self.owners)
        audited = trips.of(allocations.replace, self.call(),
                           [self.write(factories.new_uuid())], owners=self.owners)
        plain = RoundTrips(self.database).of(
            allocations.replace, self.ctx, [self.write(factories.new_uuid())],
            owners=self.owners)
        self.assertEqual(plain + (self.kind == "sqlite"), audited)

    def test_it_takes_a_statement_at_most(self):
        counts = []
        for database in (self.database, self.audited):
            call = Context(database, Identity("jane", "demo"))
            allocations.replace(call, [self.write(factories.new_uuid())], owners=self.owners)
            statements = Statements(database)
            allocations.replace(call, [self.write(factories.new_uuid())], owners=self.owners)
            counts.append(len(statements.texts))
        self.assertEqual(counts[0] + (self.kind != "postgresql"), counts[1])


@databases.on_each_database
class TestReading(AuditTestCase):

    def setUp(self):
        super().setUp()
        self.uuids = [factories.new_uuid() for _ in range(7)]
        for number, uuid in enumerate(self.uuids):
            allocations.replace(
                self.call(f"user-{number % 2}", request=f"req-{number}"),
                [self.write(uuid), self.write(factories.new_uuid())], owners=self.owners)

    def test_filters(self):
        for filters, count in (
                ({"user_id": "user-1"}, 6), ({"project_id": "user-0's"}, 8),
                ({"request_id": "req-3"}, 2), ({"uuid": self.uuids[2]}, 1),
                ({"uuid": self.uuids[2], "kind": "provider"}, 0), ({"operation": "x"}, 0),
                ({"user_id": "\0"}, 0)):
            self.assertEqual(count, len(self.list(**filters)), filters)

    def test_times(self):
        moments = [entry.at for entry in self.list(kind="consumer")]
        self.assertEqual(sorted(moments, reverse=True), moments)
        middle = moments[3]
        self.assertEqual([at for at in moments if at < middle],
                         [entry.at for entry in self.list(kind="consumer", end_at=middle)])
        self.assertEqual([at for at in moments if at >= middle],
                         [entry.at for entry in self.list(kind="consumer", start_at=middle)])

    def test_pages(self):
        paged, marker = [], None
        while page := audit.list_(self.ctx, AuditFilter(), marker=marker, limit=3):
            paged += page
            marker = page[-1].marker
        self.assertEqual(self.list(), paged)
        self.assertEqual(14, len(paged))

    def test_a_marker_that_is_none(self):
        for marker in ("", "x", "1.2", "1.2.x", f"{10**30}.1.1", f"1.{2**64}.1", "1.1.-1"):
            self.assertRaises(audit.InvalidMarker, audit.list_, self.ctx, AuditFilter(),
                              marker=marker, limit=1)

    def test_what_is_old_is_removed(self):
        with self.database.autocommit.connect() as connection:
            connection.execute(
                sa.update(tables.audit_log).where(tables.audit_log.c.user_id == "user-0")
                .values(at=datetime.datetime(2020, 1, 1)))
            connection.execute(
                sa.update(tables.audit_log).where(tables.audit_log.c.request_id == "req-0")
                .values(at=datetime.datetime(2020, 1, 2)))
        # Those of one moment go together.
        counts = [audit.prune(self.ctx, keep_days=30, most=2) for _ in range(3)]
        self.assertEqual([6, 2, 0], counts)
        self.assertEqual({"user-1"}, {entry.user_id for entry in self.list()})
