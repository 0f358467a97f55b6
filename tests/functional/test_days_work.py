"""The size of every table after a day's work, when all is over and managers have tidied up."""

import datetime

import fixtures
import sqlalchemy as sa

from placement_core import services
from placement_core.catalog import (
    domains,
    projects,
    regions,
    services as catalog_services,
)
from placement_core.changes import tables as change_tables
from placement_core.db.metadata import utcnow
from placement_core.http.leases_api import representations
from placement_core.limits import limits, registered, users
from placement_core.migrations.all_tables import metadata
from placement_core.placement import aggregates, providers, resource_classes, traits
from placement_core.placement.records import AllocationWrite
from placement_core.placement.usage import audit
from placement_core.quota import claims
from placement_core.reservations.manager import event_queue
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.testing import factories
from tests import base, databases
from tests.functional.reservations import fenced
from tests.http import base as http_base

#: What becomes larger while clients work, and is as large as before when all is over.
_GROWING = {
    "allocations", "consumers", "inventories", "moves", "resource_classes", "resource_providers",
    "resource_provider_aggregates", "resource_provider_traits", "traits",
    # Removed by managers.
    "audit_log", "changes", "consumer_types", "held_claims", "lease_notices", "lease_texts",
    "limit_history", "limit_nodes", "placement_aggregates", "projects", "rechecked_claims",
    "unused_names", "usage_counters", "usage_intervals", "users", "leases",
    "lease_events", "lease_reservations",
    "instance_reservations", "computehost_reservations", "computehost_allocations",
    # Removed by who inserted them.
    "catalog_projects", "catalog_ancestors", "limits", "user_limits",
}
#: What has a fixed number of rows.
_FIXED = {"change_heads", "marks", "online_migrations", "revisions", "usage_interval_bounds"}
#: What has a row for each thing that operators register, and loses it when they remove the
#: thing, or with a command of their own.
_REGISTERED = {
    "catalog_domains", "catalog_endpoints", "catalog_regions", "catalog_services",
    "cell_mappings", "computehost_extra_capabilities", "computehosts", "copied_records",
    "instance_group_member", "instance_groups", "instance_mappings", "migrated_nodes",
    "pooled_trees", "registered_limits", "resource_properties",
}
#: What drivers write that are not used here, and is removed with the lease, or after the call.
_OF_DRIVERS = {"reservation_amounts", "reservation_outbox"}
#: Of limits that fill up, of which there are none; what is reported is removed when it is taken.
_OF_THRESHOLDS = {"left_thresholds", "reached_thresholds", "webhook_deliveries"}
#: What comparisons with other services write: the next one removes it.
_OF_COMPARISONS = {"comparison_findings", "comparisons"}
#: What managers write of themselves: one that starts forgets those that ended.
_OF_MANAGERS = {"managers"}
#: What processes that serve write of themselves, of which there are none.
_OF_WORKERS = {"refusals", "workers"}
_AGO = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', {column}, '-{days} days')",
    "postgresql": "{column} - INTERVAL '{days} days'",
    "mysql": "{column} - INTERVAL {days} DAY",
}


@databases.on_each_database
class TestDaysWork(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.services = services.build(http_base.configuration(
            self.database.url.render_as_string(hide_password=False), {
                ("audit", "enabled"): True, ("quota", "guard"): "enforce",
                ("quota", "count_usage_from_placement"): True}))
        self.addCleanup(self.services.database.dispose)
        self.ctx = self.services.context()
        regions.create(self.ctx, id="RegionOne")
        self.service = catalog_services.create(self.ctx, service_type="compute").id
        self.domain = domains.create(self.ctx, name="garden").id
        registered.create_many(self.ctx, self.services.catalog, [
            {"service_id": self.service, "resource_name": name, "default_limit": 10**6}
            for name in ("class:VCPU", "servers")])
        self.hosts = [factories.provider(self.ctx, inventory={"VCPU": 10**6}) for _ in range(2)]
        size = {"VCPU": 64, "MEMORY_MB": 64, "DISK_GB": 64}
        for _ in range(2):
            root = factories.provider(self.ctx, inventory=size)
            fenced.register(self.ctx, root, fenced.child(self.ctx, root))

    # A day ------------------------------------------------------------------------

    def work(self, day, amount):
        """Do what clients do on a day: projects, servers, leases, limits come and go."""
        for number in range(amount):
            project = projects.create(
                self.ctx, name=f"{day}-{number}", domain_id=self.domain).id
            limit = limits.create_many(self.ctx, self.services.catalog, self.services.model, [
                {"project_id": project, "service_id": self.service,
                 "resource_name": "class:VCPU", "resource_limit": 1000}])[0]
            user_limit = users.create_many(self.ctx, self.services.catalog, [
                {"project_id": project, "user_id": "jane", "service_id": self.service,
                 "resource_name": "class:VCPU", "resource_limit": 1000}])[0]
            self.note_sizes()
            for server in range(5):
                self.run_server(project, f"user-{day}-{number}-{server}")
            self.hold(project)
            self.lease(project, f"lease-{day}-{number}", number)
            self.replace_host(f"CUSTOM_{day.upper()}_{number}")
            self.note_sizes()
            users.delete(self.ctx, user_limit.id)
            limits.delete(self.ctx, self.services.catalog, self.services.model, limit.id)
            projects.delete(self.ctx, project)

    def write(self, project, user, held, consumer, kind="INSTANCE"):
        return AllocationWrite(consumer, {
            host.uuid: {"VCPU": amount} for host, amount in held.items()}, project, user, kind)

    def run_server(self, project, user):
        """Let a server be made, re-checked, moved and deleted."""
        first, second = self.hosts
        server, migration = factories.new_uuid(), factories.new_uuid()
        self.services.claims.replace(
            self.ctx, [self.write(project, user, {first: 2}, server)])
        self.assertTrue(self.services.rechecks.recheck(
            self.ctx, project_id=project, names=["servers"], uuids=[server]).fits)
        self.services.claims.replace(self.ctx, [
            self.write(project, user, {first: 2}, migration, "MIGRATION"),
            self.write(project, user, {}, server)])
        self.services.claims.replace(
            self.ctx, [self.write(project, user, {second: 2}, server)])
        self.note_sizes()
        self.services.claims.delete(self.ctx, migration)
        self.services.claims.delete(self.ctx, server)

    def hold(self, project):
        """Let a claim be confirmed, and two not."""
        for confirmed in (True, False, False):
            consumer = factories.new_uuid()
            self.services.claims.claim(
                self.ctx, self.write(project, "holder", {self.hosts[0]: 1}, consumer,
                                     f"TYPE_{project.upper()}"),
                hold_seconds=600)
            if confirmed:
                claims.confirm(self.ctx, consumer)
                self.services.claims.delete(self.ctx, consumer)

    def lease(self, project, name, number):
        """Let a lease be made; every other one is deleted, and others will end."""
        today = utcnow().replace(microsecond=0, second=0, tzinfo=datetime.UTC)
        start = today + datetime.timedelta(days=1, hours=2 * number)
        lease = self.services.leases.create(self.ctx, NewLease(
            name, project, "jane", start, start + datetime.timedelta(hours=1), (
                NewReservation("virtual:instance", {
                    "vcpus": 1, "memory_mb": 1, "disk_gb": 1, "amount": 1, "affinity": None}),
                NewReservation("physical:host", {
                    "min": 1, "max": 1, "hypervisor_properties": "",
                    "resource_properties": ""}))))
        if number % 2:
            self.services.leases.delete(self.ctx, lease.id)

    def replace_host(self, name):
        """Let a host with names of its own come and go."""
        host = factories.provider(
            self.ctx, inventory={name: 1}, traits=[f"{name}_T"],
            aggregates=[factories.new_uuid()])
        self.note_sizes()
        aggregates.replace_for_provider(self.ctx, host.uuid, [], generation=None)
        providers.delete(self.ctx, host.uuid)
        resource_classes.delete(self.ctx, name)
        traits.delete(self.ctx, f"{name}_T")

    # Afterwards -------------------------------------------------------------------

    def tidy_up(self):
        """Let managers work until nothing is left to do, with a year between their passes."""
        tasks = self.services.manager(representations.LEASE)._tasks
        for _ in range(4):
            self.note_sizes()
            for task in tasks:
                task.do(self.services.context())
            for attempt in event_queue.dequeue(
                    self.ctx, "me", most=1000, seconds=600, cleaning_seconds=0):
                self.services.transitions.execute(self.services.context(), attempt)
            self.age(400)

    def age(self, days):
        """Let time pass since every time in the database."""
        with self.database.writer.begin() as connection:
            for table in metadata.sorted_tables:
                columns = [column.name for column in table.columns
                           if isinstance(column.type, sa.DateTime)]
                if columns:
                    changes = ", ".join(
                        f"{name} = {_AGO[self.kind].format(column=name, days=days)}"
                        for name in columns)
                    connection.execute(sa.text(f"UPDATE {table.name} SET {changes}"))

    def sizes(self):
        with self.database.autocommit.connect() as connection:
            return {table.name: connection.scalar(sa.select(sa.func.count()).select_from(table))
                    for table in metadata.sorted_tables}

    def note_sizes(self):
        """Remember how large each table was at most."""
        for name, size in self.sizes().items():
            self.largest[name] = max(size, self.largest.get(name, 0))

    def test_every_table(self):
        self.assertEqual(
            set(metadata.tables),
            _GROWING | _FIXED | _REGISTERED | _OF_DRIVERS | _OF_COMPARISONS
            | _OF_MANAGERS | _OF_THRESHOLDS | _OF_WORKERS)
        self.largest = {}
        self.work("quiet", 2)
        self.tidy_up()
        before = self.sizes()
        self.largest = {}
        # Some hundred writes of allocations; on servers they wait for disks.
        self.work("busy", 30 if self.kind == "sqlite" else 10)
        self.tidy_up()
        after = self.sizes()
        self.assertEqual(set(), {
            name for name in _GROWING if self.largest[name] <= before[name]})
        # A slot keeps its last transaction, with all its rows.
        for sizes in (before, after):
            self.assertLess(sizes.pop(change_tables.changes.name), 50)
        self.assertEqual(before, after)
        self.assertEqual(0, before["consumers"])
        self.assertEqual([], audit.audit(self.ctx, repair=False))
