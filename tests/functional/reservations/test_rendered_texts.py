"""Texts of leases in the database: which count, and who may write them when."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import db, services
from placement_core.http.leases_api import representations
from placement_core.reservations import records, tables
from placement_core.reservations.leases import (
    history,
    lease_queries,
    rendered_cache,
    rendered_texts,
)
from placement_core.reservations.store import lease_rows
from tests import base, databases, races
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY, HOUR
from tests.http import base as http_base

FORM = representations.LEASE
_PATIENCE_SECONDS = 60

_AT = datetime.datetime(2027, 3, 1, 12, tzinfo=datetime.UTC)
_MADE = _AT - HOUR


def _id(letter):
    return f"00000000-0000-4000-8000-00000000000{letter}"


#: A lease with a reservation of each kind.
LEASE = records.Lease(
    0, _id("a"), 'käse "1"', "jane", "demo", _AT, _AT + 5 * HOUR, records.ACTIVE, True, "trust", [
        records.Reservation(
            _id("b"), _id("a"), "virtual:instance", _id("c"), records.R_ACTIVE, True, False,
            {"vcpus": 2, "memory_mb": 4096, "disk_gb": 10, "amount": 3, "affinity": None,
             "resource_properties": '["==", "$a", "b"]'}, {}, _MADE, None),
        records.Reservation(
            _id("d"), _id("a"), "physical:host", _id("e"), records.R_PENDING, False, True,
            {"min": 1, "max": 2, "hypervisor_properties": "", "resource_properties": "",
             "before_end": "default"}, {}, _MADE, None),
        records.Reservation(
            _id("f"), _id("a"), "other", _id("f"), records.R_PENDING, False, False,
            {"amount": 1.5, "tags": ["x", None]}, {}, _MADE, None)],
    [records.Event(_id(number), _id("a"), kind, _AT + hours * HOUR, records.UNDONE, None, _MADE,
                   None)
     for number, (kind, hours) in enumerate(
         ((records.END, 5), (records.BEFORE_END, 4), (records.START, 0)))],
    _MADE, None)
#: What clients are shown of it: the format, and the text.
TEXT = 1, "".join((
    '{"id":"00000000-0000-4000-8000-00000000000a","name":"käse \\"1\\"","user_id":"jane",',
    '"project_id":"demo","start_date":"2027-03-01T12:00:00.000000",',
    '"end_date":"2027-03-01T17:00:00.000000","trust_id":"trust","status":"ACTIVE",',
    '"degraded":true,"created_at":"2027-03-01 11:00:00",',
    '"updated_at":"2027-03-01 12:00:00","reservations":[',
    '{"vcpus":2,"memory_mb":4096,"disk_gb":10,"amount":3,"affinity":null,',
    '"resource_properties":"[\\"==\\", \\"$a\\", \\"b\\"]",',
    '"flavor_id":"00000000-0000-4000-8000-00000000000b","server_group_id":"group",',
    '"aggregate_id":7,"id":"00000000-0000-4000-8000-00000000000b",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a",',
    '"resource_id":"00000000-0000-4000-8000-00000000000c","resource_type":"virtual:instance",',
    '"status":"active","missing_resources":true,"resources_changed":false,',
    '"created_at":"2027-03-01 11:00:00","updated_at":null},',
    '{"min":1,"max":2,"hypervisor_properties":"","resource_properties":"",',
    '"before_end":"default","aggregate_id":null,"id":"00000000-0000-4000-8000-00000000000d",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a",',
    '"resource_id":"00000000-0000-4000-8000-00000000000e","resource_type":"physical:host",',
    '"status":"pending","missing_resources":false,"resources_changed":true,',
    '"created_at":"2027-03-01 11:00:00","updated_at":null},',
    '{"amount":1.5,"tags":["x",null],"id":"00000000-0000-4000-8000-00000000000f",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a",',
    '"resource_id":"00000000-0000-4000-8000-00000000000f","resource_type":"other",',
    '"status":"pending","missing_resources":false,"resources_changed":false,',
    '"created_at":"2027-03-01 11:00:00","updated_at":null}],"events":[',
    '{"id":"00000000-0000-4000-8000-000000000002",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a","event_type":"start_lease",',
    '"time":"2027-03-01T12:00:00.000000","status":"DONE","created_at":"2027-03-01 11:00:00",',
    '"updated_at":"2027-03-01 12:00:00"},',
    '{"id":"00000000-0000-4000-8000-000000000001",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a","event_type":"before_end_lease",',
    '"time":"2027-03-01T16:00:00.000000","status":"UNDONE","created_at":"2027-03-01 11:00:00",',
    '"updated_at":null},',
    '{"id":"00000000-0000-4000-8000-000000000000",',
    '"lease_id":"00000000-0000-4000-8000-00000000000a","event_type":"end_lease",',
    '"time":"2027-03-01T17:00:00.000000","status":"UNDONE","created_at":"2027-03-01 11:00:00",',
    '"updated_at":null}]}'))


@databases.on_each_database
class TestFormat(base.DatabaseTestCase):

    def test_another_text_has_another_format(self):
        """Where this fails: raise the format of ``representations.LEASE``, then change TEXT."""
        with db.write(self.ctx) as session:
            lease = lease_rows.insert(session, LEASE)
            session.execute(sa.update(tables.leases).values(updated_at=lease_rows.naive(_AT)))
            session.execute(
                sa.update(tables.lease_events)
                .where(tables.lease_events.c.event_type == records.START)
                .values(status=records.DONE, updated_at=lease_rows.naive(_AT)))
            session.execute(
                sa.update(tables.instance_reservations)
                .values(aggregate_id=7, server_group_id="group", updated_at=None))
        format_, text = TEXT
        for _ in range(2):
            self.assertEqual(
                (format_, [(lease.id, text)]),
                (FORM.format, [
                    (id_, each.decode())
                    for id_, each in rendered_cache.RenderedLeases(
                        FORM, rendered_cache.LeaseTexts()).page(self.ctx)]))
            rendered_texts.fill(self.ctx, FORM)


class TextsTestCase(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.hosts((64, 64, 64))

    def make(self, count):
        return [self.create(self.instances(), start=number, end=number + 1)
                for number in range(count)]

    def fill(self, form=FORM):
        return rendered_texts.fill(self.context(), form)

    def texts(self):
        return {row.lease_id: row for row in self.rows(tables.lease_texts)}

    def seen(self, form=FORM):
        """Return what a new process shows: {id: text}."""
        process = rendered_cache.RenderedLeases(form, rendered_cache.LeaseTexts())
        return dict(process.page(self.context()))

    def made(self):
        """Return what there is to be shown."""
        return {each.id: FORM.render(each) for each in lease_queries.page(self.context())}

    def doing(self, function, form=FORM):
        """Return a form that does something once: when leases were read, and nothing is written.
        """
        left = [function]

        def show(lease):
            while left:
                left.pop()()
            return form.render(lease)

        return dataclasses.replace(form, render=show)

    def mark(self, lease, **values):
        """Change the row of a text; by this it is known again."""
        with db.write(self.context()) as session:
            session.execute(
                sa.update(tables.lease_texts)
                .where(tables.lease_texts.c.lease_id == lease.id)
                .values(text="{}", **values))

    def assert_complete(self):
        """What a new process shows is right, and nothing is left to be written."""
        self.assertEqual(self.made(), self.seen())
        self.assertEqual(0, self.fill())
        self.assertEqual(
            {row.id: (row.number, row.version, FORM.format)
             for row in self.rows(tables.leases) if row.deleted_at is None},
            {row.lease_id: (row.number, row.version, row.format)
             for row in self.texts().values()})
        self.assertEqual(
            self.made(), {row.lease_id: row.text.encode() for row in self.texts().values()})


@databases.on_each_database
class TestTexts(TextsTestCase):

    def test_what_is_missing_is_written(self):
        self.assertEqual(0, self.fill())
        first, second, third = self.make(3)
        self.leases.delete(self.ctx, third.id)
        self.assertEqual(2, self.fill())
        self.assert_complete()
        self.change(second, name="käse 🧀 \x01")
        self.assertEqual(1, self.fill())
        self.assert_complete()
        self.execute(first, "start_lease")
        self.assertEqual(1, self.fill())
        self.assert_complete()

    def test_in_batches(self):
        self.useFixture(fixtures.MonkeyPatch(f"{rendered_texts.__name__}._BATCH", 2))
        for count in (4, 5):
            self.make(count)
            self.assertEqual(count, self.fill())
            self.assert_complete()

    def test_one_that_is_in_the_way_holds_up_no_other(self):
        """As after leases were restored without their texts."""
        self.useFixture(fixtures.MonkeyPatch(f"{rendered_texts.__name__}._BATCH", 1))
        first, *_ = self.make(3)
        self.fill()
        self.mark(first, version=self.texts()[first.id].version + 1)
        self.make(2)
        self.assertEqual(3, self.fill())
        self.assertEqual(self.made(), self.seen())

    def test_which_counts(self):
        """Only one of this lease, in this version and this format."""
        lease, other = self.make(2)
        self.fill()
        self.mark(lease)
        expected = self.made()
        self.assertEqual(expected | {lease.id: b"{}"}, self.seen())
        row = self.texts()[lease.id]
        for values in (
                {"version": row.version - 1}, {"version": row.version + 1},
                {"format": FORM.format - 1}, {"format": FORM.format + 1},
                {"lease_id": other.id}):
            self.mark(lease, **values)
            self.assertEqual(expected, self.seen(), values)
            with db.write(self.ctx) as session:
                session.execute(sa.delete(tables.lease_texts))
                session.execute(sa.insert(tables.lease_texts), row._asdict())

    def test_a_list_that_is_partly_written(self):
        """Filters, order and pages, with texts that are known, written, old, and missing."""
        made = self.make(8)
        self.fill()
        for lease in made[:3]:
            self.change(lease, name="other")
        self.make(2)
        for filters in ({}, {"name": "other"}, {"sort_key": "start_at", "descending": True},
                        {"limit": 5}, {"after": made[1].id, "limit": 3}, {"name": "no"}):
            process = rendered_cache.RenderedLeases(FORM, rendered_cache.LeaseTexts())
            for before in ({"limit": 1}, filters, {}):
                process.page(self.ctx, **before)
                self.assertEqual(
                    [(each.id, FORM.render(each))
                     for each in lease_queries.page(self.ctx, **filters)],
                    process.page(self.ctx, **filters), filters)

    def test_another_format(self):
        """Every manager leaves newer texts alone, and replaces older ones."""
        lease, _ = self.make(2)
        self.fill()
        new = rendered_texts.LeaseRenderer(FORM.format + 1, lambda lease: lease.name.encode())
        self.assertEqual(dict.fromkeys(self.made(), b"lease"), self.seen(new))
        self.assertEqual(2, self.fill(new))
        self.assertEqual(dict.fromkeys(self.made(), b"lease"), self.seen(new))
        self.assertEqual(self.made(), self.seen())
        self.assertEqual(0, self.fill())
        # Also where the lease has changed since, and if they were read before.
        self.change(lease, name="other")
        self.assertEqual(0, self.fill())
        self.assertEqual(1, self.fill(new))
        with db.write(self.ctx) as session:
            session.execute(sa.delete(tables.lease_texts))
        self.assertEqual(2, self.fill(self.doing(lambda: self.fill(new))))
        self.assertEqual({"lease", "other"}, {row.text for row in self.texts().values()})
        self.assertEqual(0, self.fill(new))

    def test_a_slow_manager_comes_with_an_old_text(self):
        made = self.make(3)

        def change():
            self.change(made[1], name="other")
            self.assertEqual(3, self.fill())

        self.fill(self.doing(change))
        self.assert_complete()

    def test_a_lease_changes_meanwhile(self):
        made = self.make(3)
        self.fill(self.doing(lambda: self.change(made[1], name="other")))
        self.assertEqual(self.made(), self.seen())
        self.assertEqual(1, self.fill())
        self.assert_complete()

    def test_nobody_who_changes_a_lease_is_waited_for(self):
        if self.kind == "sqlite":
            self.skipTest("writers wait for each other")
        made = self.make(3)
        with db.write(self.ctx) as session:
            lease_rows.lock(session, made[1].id)
            self.assertEqual(3, self.fill())
        self.assertEqual(1, self.fill())
        self.assert_complete()

    def test_side_by_side(self):
        """Two who write much of the same at the same time, one text of it in two versions."""
        for _ in range(5):
            made = self.make(20)
            self.fill()
            for lease in made[5:15]:
                self.change(lease, name="other")
            read = threading.Barrier(2)

            def change(lease=made[7], read=read):
                self.change(lease, name="later")
                read.wait(_PATIENCE_SECONDS)

            first, second = self.doing(change), self.doing(
                functools.partial(read.wait, _PATIENCE_SECONDS))
            self.assertEqual([10, 10], races.run(
                functools.partial(self.fill, first), functools.partial(self.fill, second)))
            self.assertEqual(self.made(), self.seen())
            self.assertLessEqual(self.fill(), 1)
            self.assert_complete()

    def test_many_managers_while_leases_change(self):
        made = self.make(10)
        until = time.monotonic() + 2

        def fill():
            count = 0
            while time.monotonic() < until:
                count += self.fill()
            return count

        def change():
            count = 0
            while time.monotonic() < until:
                self.change(made[count % 10], ctx=self.context(), name=f"name {count}")
                self.assertEqual(self.made().keys(), self.seen().keys())
                count += 1
            return count

        counts = races.run(fill, fill, fill, change)
        self.assertTrue(all(isinstance(each, int) and each for each in counts), counts)
        self.fill()
        self.assert_complete()


@databases.on_each_database
class TestRemoval(TextsTestCase):

    def prune(self, days=10):
        return history.prune(self.context(), keep_days=days, most=1000)

    def old(self):
        """Return a lease that ended long ago."""
        lease = self.back(self.started(self.instances(), end=self.now + HOUR), 20 * DAY)
        self.execute(lease, "end_lease")
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.leases).where(tables.leases.c.id == lease.id)
                .values(ended_at=lease_rows.naive(lease.end_at)))
        return lease

    def test_with_the_lease(self):
        old, young = self.old(), self.make(1)[0]
        self.fill()
        self.assertEqual({old.id, young.id}, self.texts().keys())
        self.assertEqual(1, self.prune().leases)
        self.assertEqual({young.id}, self.texts().keys())
        self.assert_complete()

    def test_of_a_lease_that_was_deleted(self):
        first, second = self.make(2)
        self.fill()
        self.leases.delete(self.ctx, first.id)
        self.prune()
        self.assertEqual({second.id}, self.texts().keys())
        self.assert_complete()

    def test_not_of_what_was_changed_or_is_of_another_format(self):
        """It is replaced, or somebody else's."""
        first, second = self.make(2)
        self.fill()
        self.change(first, name="other")
        self.mark(second, format=FORM.format + 1)
        self.prune()
        self.assertEqual({first.id, second.id}, self.texts().keys())

    def test_a_lease_is_removed_while_its_text_is_made(self):
        old = self.old()
        self.fill(self.doing(self.prune))
        self.assertEqual({old.id}, self.texts().keys())
        # On SQLite its number comes back.
        lease, *_ = self.make(2)
        self.assertEqual(self.kind == "sqlite", lease.number == old.number)
        self.assertEqual(self.made(), self.seen())
        self.fill()
        self.assert_complete_but_for(old)
        self.prune()
        self.assert_complete()

    def assert_complete_but_for(self, old):
        self.assertEqual(self.made(), self.seen())
        self.assertEqual(0, self.fill())
        self.assertLessEqual(self.made().keys(), self.texts().keys() - {old.id})


@databases.on_each_database
class TestManager(TextsTestCase):

    def test_it_writes_them(self):
        self.make(2)
        parts = services.build(http_base.configuration(
            self.database.url.render_as_string(hide_password=False)))
        self.addCleanup(parts.database.dispose)
        manager = parts.manager(FORM)
        thread = threading.Thread(target=manager.run, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while len(self.texts()) < 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
        finally:
            manager.stop()
            thread.join(_PATIENCE_SECONDS)
        self.assert_complete()
