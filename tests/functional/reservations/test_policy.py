import datetime
import threading

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.catalog import projects
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.reservations import tables
from placement_core.reservations.errors import NoRoom, OverQuota, PolicyRefused
from tests import databases, round_trips
from tests.functional.reservations import lease_cases, ruled
from tests.functional.reservations.lease_cases import DAY, HOUR, SECOND


class TestDuration(ruled.RuledTestCase):
    options = {"enforcement__max_lease_duration": 3600,
               "enforcement__max_lease_duration_exempt_project_ids": ["free"]}

    def test_a_lease(self):
        self.create(self.whole(), start=0, end=1)
        refusal = self.assert_refused(
            PolicyRefused, self.create, self.whole(), start=0, end=self.at(1) + SECOND)
        self.assertEqual("The lease would last 3601 seconds; it may last 3600.", str(refusal))
        self.assert_refused(PolicyRefused, self.create, self.whole(), start=None, end=1)
        self.create(self.whole(), start=None, end=self.now + HOUR)

    def test_a_dry_run(self):
        self.assert_refused(
            PolicyRefused, self.leases.what_if, self.ctx, self.new(self.whole(), end=2))

    def test_who_is_exempt(self):
        self.create(self.whole(), end=2, project="free")

    def test_a_change(self):
        lease = self.create(self.whole(), end=1)
        self.assert_refused(PolicyRefused, self.change, lease, end_at=self.at(1) + SECOND)
        self.change(lease, start_at=5, end_at=6)

    def test_what_was_longer_before_may_become_shorter(self):
        self.rule()
        lease = self.create(self.whole(), end=10)
        self.rule(**self.options)
        self.change(lease, name="another name")
        self.change(lease, end_at=9)
        self.assert_refused(PolicyRefused, self.change, lease, end_at=9.5)

    def test_without_its_filter(self):
        self.rule(**self.options, enforcement__enabled_filters=["ExternalServiceFilter"])
        self.create(self.whole(), end=2)


class TestHorizon(ruled.RuledTestCase):
    options = {"reservations__max_days_ahead": 10}

    def test_a_lease(self):
        self.create(self.whole(), end=self.days(10))
        refusal = self.assert_refused(
            PolicyRefused, self.create, self.whole(), end=self.days(10) + HOUR)
        self.assertIn("within 10 days", str(refusal))

    def test_a_change(self):
        self.rule()
        lease = self.create(self.whole(), end=self.days(20))
        self.rule(**self.options)
        self.assert_refused(
            PolicyRefused, self.change, lease, end_at=self.days(20) + SECOND)
        self.change(lease, end_at=self.days(19))
        self.change(lease, end_at=self.days(9))
        self.assert_refused(PolicyRefused, self.change, lease, end_at=self.days(19))


class TestOptions(ruled.RuledTestCase):
    def test_options_that_make_no_sense(self):
        for values in (
                {"enforcement__enabled_filters": ["MyFilter"]},
                {"enforcement__external_service_endpoint": "somewhere"},
                {"enforcement__external_service_on_end": "ftp://somewhere"},
                {"reservations__keep_days": 29},
                {"reservations__keep_days": 1, "reservations__budget_days": 0,
                 "reservations__cleaning_time": 24 * 60 + 1}):
            self.assertRaises(core_errors.ConfigurationError, self.rule, **values)
        self.rule(reservations__keep_days=1, reservations__budget_days=0,
                  reservations__cleaning_time=24 * 60)


class TestQuota(ruled.RuledTestCase):
    def test_more_instances_than_the_quota(self):
        self.register({"servers": 4, "cores": -1})
        self.create(self.instances(4), project=self.left)
        refusal = self.assert_refused(
            OverQuota, self.create, self.instances(5), project=self.left)
        self.assertEqual(
            "The reserved instances are larger than the quota: servers: 5 reserved, "
            f"{self.left} may have 4.", str(refusal))
        # It is the lease that counts, and it alone: others are for other times, or ended.
        self.assert_refused(
            OverQuota, self.create, self.instances(3), self.instances(2), project=self.left)
        self.create(self.instances(4), project=self.left)

    def test_before_it_is_found_that_there_is_no_room(self):
        self.register({"servers": 4})
        self.assert_refused(OverQuota, self.create, self.instances(10**6), project=self.left)
        self.limit(self.left, {"servers": 10**7})
        self.assert_refused(NoRoom, self.create, self.instances(10**6), project=self.left)

    def test_each_kind_of_limit(self):
        for name, small, size in (
                ("cores", 7, (4, 1, 1)), ("ram", 1023, (1, 512, 1)),
                ("instances", 1, (1, 1, 1)), ("class:DISK_GB", 9, (1, 1, 5)),
                ("class:VCPU", 1, (1, 1, 1))):
            self.register({name: small + 1})
            project = self.project(name.replace(":", "-"))
            self.create(self.instances(2, size), project=project)
            self.limit(project, {name: small})
            refusal = self.assert_refused(
                OverQuota, self.create, self.instances(2, size), project=project)
            self.assertEqual([(name, small, small + 1)], [
                (each.resource_name, each.limit, each.asked) for each in refusal.exceeded_limits])

    def test_limits_above(self):
        self.register({"servers": 10})
        self.limit(self.trunk, {"servers": 3})
        refusal = self.assert_refused(
            OverQuota, self.create, self.instances(4), project=self.left)
        self.assertEqual([self.trunk], [each.node_id for each in refusal.exceeded_limits])

    def test_a_change(self):
        lease = self.create(self.instances(4), project=self.left)
        self.register({"servers": 3})
        self.change(lease, {"amount": 4}, start_at=1, end_at=2)
        self.assert_refused(OverQuota, self.change, lease, {"amount": 5})
        self.change(lease, {"amount": 2})
        self.assert_refused(OverQuota, self.change, lease, {"amount": 4})

    def test_whole_hosts_are_no_instances(self):
        self.register({"servers": 0, "cores": 0})
        self.create(self.whole(3), project=self.left)

    def test_what_is_not_registered(self):
        self.register({"servers": 4})
        self.create(self.instances(), project="stranger")
        self.rule(unregistered=0)
        refusal = self.assert_refused(OverQuota, self.create, self.instances())
        self.assertEqual(
            ["class:DISK_GB", "class:MEMORY_MB", "class:VCPU"],
            [each.resource_name for each in refusal.exceeded_limits])
        # There are no budgets, and so nothing to be held to.
        self.create(self.whole())

    def test_leases_do_not_change_what_binds_claims(self):
        index = UsageIndex(self.database)
        before = index.usages(self.ctx).revision
        self.create(self.instances(), project=self.left)
        self.assertEqual(before, index.usages(self.ctx).revision)
        self.register({"servers": 0})
        self.assertNotEqual(before, index.usages(self.ctx).revision)

    def test_switched_off(self):
        self.register({"servers": 0})
        self.rule(reservations__check_quota=False)
        self.create(self.instances())


class BudgetsTestCase(ruled.RuledTestCase):
    def refused(self, call, *arguments, **named):
        """Return what was exceeded: (name, whose, limit, used, asked)."""
        refusal = self.assertRaises(PolicyRefused, call, *arguments, **named)
        return [(each.resource_name, each.node_id, each.limit, each.used, each.asked)
                for each in refusal.exceeded_limits]


@databases.on_each_database
class TestSums(BudgetsTestCase):
    def test_slots_times_hours(self):
        self.register({"lease:vcpu_hours": 24})
        self.create(self.instances(2, (2, 1, 1)), end=3, project=self.left)
        self.assertEqual(
            [("lease:vcpu_hours", self.left, 24, 12, 13)],
            self.refused(self.create, self.instances(1, (1, 1, 1)), end=13, project=self.left))
        self.create(self.instances(1, (1, 1, 1)), end=12, project=self.left)
        self.assertEqual(
            [("lease:vcpu_hours", self.left, 24, 24, 1)],
            self.refused(self.create, self.instances(), end=1, project=self.left))
        # A second of it is too much; and others have budgets of their own.
        self.refused(self.create, self.instances(), end=self.at(0) + SECOND, project=self.left)
        self.create(self.instances(), project=self.right)

    def test_limits_above_bind_all_below(self):
        self.register({"lease:vcpu_hours": 20})
        self.limit(self.trunk, {"lease:vcpu_hours": 30})
        self.create(self.instances(1, (16, 1, 1)), project=self.left)
        self.create(self.instances(1, (4, 1, 1)), project=self.trunk)
        self.assertEqual(
            [("lease:vcpu_hours", self.trunk, 30, 20, 11)],
            self.refused(self.create, self.instances(11), project=self.right))
        self.assertEqual(
            [("lease:vcpu_hours", self.left, 20, 16, 11),
             ("lease:vcpu_hours", self.trunk, 30, 20, 11)],
            self.refused(self.create, self.instances(11), project=self.left))
        self.create(self.instances(10), project=self.right)
        self.refused(self.create, self.instances(), project=self.right)
        # What moves away does not count any more.
        projects.update(self.ctx, self.left, parent_id=self.domain)
        self.create(self.instances(10), project=self.right)

    def test_a_change_counts_as_the_difference(self):
        self.register({"lease:vcpu_hours": 10})
        lease = self.create(self.instances(5), end=2)
        self.change(lease, start_at=3, end_at=5)
        self.assertEqual(
            [("lease:vcpu_hours", "p", 10, 10, 5)], self.refused(self.change, lease, end_at=6))
        self.change(lease, {"amount": 2}, end_at=8)
        self.assertEqual(
            [("lease:vcpu_hours", "p", 10, 10, 1)],
            self.refused(self.change, lease, end_at=self.at(8) + SECOND))

    def test_what_was_given_back_does_not_count(self):
        self.register({"lease:vcpu_hours": 10})
        self.leases.delete(self.ctx, self.create(self.instances(10)).id)
        lease = self.started(self.instances(1), end=self.now + 10 * HOUR)
        lease = self.back(lease, 4 * HOUR)
        self.leases.delete(self.ctx, lease.id)
        [(_, _, _, used, _)] = self.refused(self.create, self.instances(7))
        # Four hours, and perhaps a second that the test took.
        self.assertIn(used, (4, 5))
        self.create(self.instances(5))

    def test_what_was_held_long_ago_does_not_count(self):
        self.register({"lease:vcpu_hours": 10})
        lease = self.started(self.instances(1), end=self.now + 10 * HOUR)
        self.back(lease, 30 * DAY + 6 * HOUR)
        # Four of the ten hours are within the thirty days.
        self.assertEqual(
            [("lease:vcpu_hours", "p", 10, 4, 7)], self.refused(self.create, self.instances(7)))
        self.create(self.instances(6))
        self.rule(reservations__budget_days=0)
        self.create(self.instances(4))
        self.refused(self.create, self.instances(1))

    def test_what_grows_in_force_counts_from_then_on(self):
        self.register({"lease:host_hours": 30})
        lease = self.started(self.whole(1), end=self.now + 20 * HOUR)
        lease = self.back(lease, 19 * HOUR)
        self.change(lease, {"min": 2, "max": 2})
        # Twenty hours of one host, and the last hour of another.
        self.assertEqual([("lease:host_hours", "p", 30, 21, 10)],
                         self.refused(self.create, self.whole(), end=10))
        self.create(self.whole(), end=9)

    def test_what_is_extended_in_force_without_a_host_that_failed(self):
        """What the lease gave back others may have; it does not pay for its extension."""
        self.register({"lease:host_hours": 40})
        lease = self.started(self.whole(1, 2), end=self.now + 20 * HOUR, project=self.left)
        lease = self.back(lease, 15 * HOUR)
        [hosts] = self.held(lease)
        self.give_back(lease, min(hosts), 15 * HOUR)
        self.create(self.whole(), start=None, end=self.now + 30 * HOUR, project=self.right)
        self.create(self.whole(), start=None, end=self.now + 5 * HOUR, project=self.left)
        self.assertEqual(
            [("lease:host_hours", self.left, 40, 40, 10)],
            self.refused(self.change, lease, end_at=lease.end_at + 10 * HOUR))

    def give_back(self, lease, host_id, span):
        """Let a lease have had a host for so long after its start."""
        table = tables.computehost_allocations
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(table).where(
                    table.c.reservation_id == lease.reservations[0].id,
                    table.c.computehost_id == host_id)
                .values(end_second=table.c.start_second + int(span.total_seconds())))

    def test_what_it_costs(self):
        trips = round_trips.RoundTrips(self.database)
        self.create(self.instances(), project=self.left)
        costs = [trips.of(self.create, self.instances(), project=self.left)]
        self.register({"lease:vcpu_hours": 100, "servers": 100})
        self.create(self.instances(), project=self.left)
        costs.append(trips.of(self.create, self.instances(), project=self.left))
        self.rules = lease_cases.NotedRules()
        self.leases = self.service()
        costs.append(trips.of(self.create, self.instances(), project=self.left))
        # Whether limits have changed; and then also the time, and what leases hold.
        self.assertEqual([1, 3, 0], [cost - costs[2] for cost in costs])

    def test_rivals_for_what_is_left(self):
        self.register({"lease:vcpu_hours": 3})
        outcomes = []

        def ask():
            try:
                self.create(self.instances(2), ctx=self.context())
            except PolicyRefused:
                outcomes.append("refused")
            else:
                outcomes.append("made")

        rivals = [threading.Thread(target=ask) for _ in range(4)]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
        self.assertEqual(["made", "refused", "refused", "refused"], sorted(outcomes))

    def test_limits_that_change_meanwhile(self):
        """A lease is held to those that are in force when it is admitted."""
        self.register({"lease:vcpu_hours": 10})
        self.limit_after_prepare(self.left, 3)
        self.assertEqual(
            [("lease:vcpu_hours", self.left, 3, 0, 5)],
            self.refused(self.create, self.instances(5), project=self.left))
        lease = self.create(self.instances(4), project=self.right)
        self.limit_after_prepare(self.trunk, 4)
        self.assertEqual(
            [("lease:vcpu_hours", self.trunk, 4, 4, 4)],
            self.refused(self.change, lease, end_at=2))

    def test_sums_beyond_64_bits(self):
        self.register({"lease:memory_gb_hours": -1})
        self.hosts((1000, 2**40, 1000))
        far = datetime.datetime(4999, 1, 1, tzinfo=datetime.UTC)
        self.create(self.instances(100, (1, 2**31 - 1, 1)), end=far, project=self.left)
        self.limit(self.trunk, {"lease:memory_gb_hours": 2**31 - 1})
        [(_, node, _, used, asked)] = self.refused(
            self.create, self.instances(), project=self.right)
        self.assertEqual((self.trunk, 1), (node, asked))
        hours = (far - self.at(0)) / HOUR
        self.assertAlmostEqual(100 * (2**31 - 1) / 1024 * hours / used, 1, places=9)


class TestBudgets(BudgetsTestCase):
    def test_each_budget(self):
        self.register({"lease:memory_gb_hours": 64, "lease:disk_gb_hours": 1000,
                       "lease:host_hours": 1, "lease:vcpu_hours": 16})
        self.create(self.whole(), project=self.left)
        self.assertEqual([
            ("lease:vcpu_hours", self.left, 16, 16, 16),
            ("lease:host_hours", self.left, 1, 1, 1),
        ], self.refused(self.create, self.whole(), project=self.left))
        self.limit(self.left, {"lease:vcpu_hours": -1, "lease:host_hours": -1})
        self.create(self.whole(), project=self.left)
        self.assertEqual([
            ("lease:memory_gb_hours", self.left, 64, 64, 1),
            ("lease:disk_gb_hours", self.left, 1000, 1000, 1),
        ], self.refused(self.create, self.instances(size=(1, 1, 1)), project=self.left))

    def test_slots_are_no_hosts(self):
        self.register({"lease:host_hours": 0})
        self.create(self.instances(4))
        self.refused(self.create, self.whole())

    def test_several_reservations_count_together(self):
        self.register({"lease:vcpu_hours": 3})
        self.assertEqual(
            [("lease:vcpu_hours", "p", 3, 0, 4)],
            self.refused(self.create, self.instances(2), self.instances(2)))

    def test_what_shrinks_is_not_refused(self):
        lease = self.create(self.instances(5), end=2)
        self.register({"lease:vcpu_hours": 1})
        self.change(lease, {"amount": 4})
        self.change(lease, start_at=10, end_at=11)
        self.refused(self.change, lease, end_at=12)

    def test_a_dry_run(self):
        self.register({"lease:vcpu_hours": 1})
        self.refused(self.leases.what_if, self.ctx, self.new(self.instances(2)))
