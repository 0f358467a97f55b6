import sqlalchemy as sa

from placement_core.placement import allocations, inventories, tables
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import audit
from placement_core.testing import factories
from tests import databases, races, rows_read
from tests.functional.placement import claims


@databases.on_each_database
class TestAudit(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.hosts = [self.provider(VCPU=80, DISK_GB=10) for _ in range(3)]
        for host in self.hosts:
            self.claim({host: {"VCPU": 2, "DISK_GB": 1}}, consumer=factories.new_uuid())

    def spoil(self, *statements):
        with self.database.writer.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    def check(self, *expected):
        """Compare what is found, found and repaired, and found afterwards."""
        found = audit.audit(self.ctx, repair=False)
        self.assertEqual(
            sorted(expected), sorted((item.what, item.stored, item.actual) for item in found))
        self.assertEqual([], [item for item in found if item.repaired])
        repaired = audit.audit(self.ctx, repair=True)
        self.assertEqual(len(found), len(repaired))
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_nothing_to_find(self):
        self.assertEqual([], audit.audit(self.ctx, repair=False))
        before = [self.revision(host) for host in self.hosts]
        self.assertEqual([], audit.audit(self.ctx, repair=True))
        self.assertEqual(before, [self.revision(host) for host in self.hosts])

    def test_used(self):
        before = [self.revision(host) for host in self.hosts]
        self.spoil(sa.update(tables.inventories).values(used=99).where(
            tables.inventories.c.resource_provider_id == self.hosts[1].id))
        self.check(("used", 99, 2), ("used", 99, 1))
        self.assertEqual({"VCPU": 2, "DISK_GB": 1}, self.used(self.hosts[1]))
        before[1] += 1
        self.assertEqual(before, [self.revision(host) for host in self.hosts])

    def test_capacity(self):
        self.spoil(sa.update(tables.inventories).values(capacity=3).where(
            tables.inventories.c.resource_provider_id == self.hosts[2].id,
            tables.inventories.c.resource_class_id == 0))
        self.check(("capacity", 3, 80))

    def test_both_at_once(self):
        self.spoil(sa.update(tables.inventories).values(capacity=3, used=-4).where(
            tables.inventories.c.resource_provider_id == self.hosts[2].id,
            tables.inventories.c.resource_class_id == 0))
        self.check(("capacity", 3, 80), ("used", -4, 2))

    def test_counters(self):
        counters = tables.usage_counters
        self.spoil(
            sa.update(counters).values(used=counters.c.used + 5).where(
                counters.c.resource_class_id == tables.CONSUMERS_ID),
            sa.delete(counters).where(counters.c.resource_class_id == 0))
        # Of the user, and of everybody.
        self.check(*[("counter", 8, 3), ("counter", 0, 6)] * 2)

    def test_counters_of_nobody(self):
        self.spoil(sa.insert(tables.usage_counters).values(
            project_id=12345, user_id=1, consumer_type_id=0, resource_class_id=0, slot=3, used=7))
        self.check(("counter", 7, 0))

    def moved(self):
        """Begin a move; return (the instance, the migration)."""
        instance, migration = factories.new_uuid(), factories.new_uuid()
        held = {self.hosts[0]: {"VCPU": 4}}
        self.claim(held, consumer=instance)
        allocations.replace(self.ctx, [
            self.write({}, consumer=instance), self.write(held, consumer=migration)])
        self.claim({self.hosts[1]: {"VCPU": 3}}, consumer=instance)
        self.check()
        return instance, migration

    def test_moves(self):
        self.moved()
        moves = tables.moves
        self.spoil(sa.update(moves).where(moves.c.resource_class_id == 0).values(used=4))
        self.check(("move", 5, 4))

    def test_moves_of_nobody(self):
        """A pair whose second consumer is gone."""
        _, migration = self.moved()
        self.spoil(sa.update(tables.moves).where(tables.moves.c.consumer_uuid == migration)
                   .values(consumer_uuid=factories.new_uuid()))
        self.check(("move", 4, 0))

    def test_allocations_without_inventory_are_reported(self):
        here = tables.inventories.c.resource_provider_id == self.hosts[0].id
        self.spoil(sa.delete(tables.inventories).where(
            here, tables.inventories.c.resource_class_id == 0))
        found, = audit.audit(self.ctx, repair=True)
        self.assertEqual(("inventory", 0, 2, False),
                         (found.what, found.stored, found.actual, found.repaired))
        host = self.hosts[0]
        self.assertEqual(f"VCPU on resource provider {host.name} ({host.uuid})", found.where)
        inventories.create(self.ctx, self.hosts[0].uuid, "VCPU", InventoryValues(80),
                           allow_fully_reserved=True)
        self.check(("used", 0, 2))

    def test_a_consumer_can_leave_a_provider_that_lost_its_inventory(self):
        self.claim({self.hosts[0]: {"VCPU": 3}})
        self.spoil(sa.delete(tables.inventories).where(
            tables.inventories.c.resource_provider_id == self.hosts[0].id,
            tables.inventories.c.resource_class_id == 0))
        self.claim({self.hosts[1]: {"VCPU": 3}})
        self.claim({})
        self.spoil(sa.delete(tables.allocations).where(
            tables.allocations.c.resource_provider_id == self.hosts[0].id,
            tables.allocations.c.resource_class_id == 0))
        self.check(*[("counter", 6, 4)] * 2)

    def test_ratios_of_many_digits(self):
        for ratio in (1.1, 0.7, 16.0, 1.23456789, 3.4e38, 0.000123456789):
            factories.provider(self.ctx, inventory={
                "VCPU": InventoryValues(2147483647, allocation_ratio=ratio),
                "DISK_GB": InventoryValues(10, allocation_ratio=ratio)})
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_in_batches(self):
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 2
        self.spoil(sa.update(tables.inventories).values(used=99))
        self.check(*[("used", 99, 2), ("used", 99, 1)] * 3)

    def test_moves_in_batches(self):
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 2
        for _ in range(5):
            self.moved()
        self.spoil(sa.update(tables.moves).where(tables.moves.c.resource_class_id == 0)
                   .values(used=5))
        self.check(*[("move", 6, 4)] * 5)

    def test_allocations_of_nobody(self):
        """Of providers that are gone, with ids between and after those that are there."""
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 1
        gone = [self.provider(VCPU=8) for _ in range(2)]
        self.provider(VCPU=8)
        gone.append(self.provider(VCPU=8))
        for provider in gone:
            self.claim({provider: {"VCPU": 3}}, consumer=factories.new_uuid())
        ids = [provider.id for provider in gone]
        self.spoil(
            sa.delete(tables.inventories).where(
                tables.inventories.c.resource_provider_id.in_(ids)),
            sa.update(tables.resource_providers).values(root_provider_id=None),
            sa.delete(tables.resource_providers).where(tables.resource_providers.c.id.in_(ids)))
        for repair in (False, True):
            found = audit.audit(self.ctx, repair=repair)
            self.assertEqual([("inventory", 0, 3, False)] * 3, [
                (item.what, item.stored, item.actual, item.repaired) for item in found])
        self.spoil(sa.delete(tables.allocations).where(
            tables.allocations.c.resource_provider_id.in_(ids)), sa.delete(tables.usage_counters))
        audit.audit(self.ctx, repair=True)

    def test_while_others_claim(self):
        """What is right is never found, and a repair undoes nothing of what others do."""
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 2
        rounds, ended = 3 if self.kind == "sqlite" else 12, []

        def claim(number):
            ctx = self.context()
            for _ in range(rounds):
                consumer = factories.new_uuid()
                held = {host: {"VCPU": 1, "DISK_GB": 1} for host in self.hosts[:2]}
                allocations.replace(ctx, [self.write(
                    held, consumer=consumer, project=f"project-{number}", seen=None)])
                allocations.delete(ctx, consumer)
            ended.append(number)

        def look():
            found = []
            while len(ended) < 3:
                found += audit.audit(self.context(), repair=False)
            return found

        def repair():
            spoiled = 0
            while len(ended) < 3:
                self.spoil(sa.update(tables.inventories).values(
                    used=tables.inventories.c.used + 3).where(
                        tables.inventories.c.resource_provider_id == self.hosts[2].id))
                self.spoil(sa.update(tables.usage_counters).values(
                    used=tables.usage_counters.c.used + 3).where(
                        tables.usage_counters.c.project_id == self.first_project))
                spoiled += len(audit.audit(self.context(), repair=True))
            return spoiled

        self.assertEqual([None] * 3 + [[]], races.run(
            *(lambda number=number: claim(number) for number in range(3)), look))
        ended.clear()
        with self.database.autocommit.connect() as connection:
            self.first_project = connection.scalar(sa.select(sa.func.min(tables.projects.c.id)))
        *claimed, repaired = races.run(
            *(lambda number=number: claim(number) for number in range(3)), repair)
        self.assertEqual([None] * 3, claimed)
        self.assertGreaterEqual(repaired, 4)
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_cost(self):
        """It looks at each row once, however many there are."""
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 10
        costs = []
        for number in (100, 500):
            self.fill(number)
            costs.append(rows_read.count(
                self.database.settings, lambda ctx: audit.audit(ctx, repair=False)))
        # Five times the rows, and what does not depend on them.
        self.assertLess(costs[1], 6.5 * costs[0], costs)

    def fill(self, number):
        """Have so many providers, each with a claim of a project of its own, and moves."""
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.moves))
            connection.execute(sa.delete(tables.usage_counters))
            connection.execute(sa.delete(tables.allocations))
            connection.execute(sa.delete(tables.inventories))
            connection.execute(sa.delete(tables.consumers))
            connection.execute(sa.delete(tables.projects))
            connection.execute(sa.update(tables.resource_providers).values(root_provider_id=None))
            connection.execute(sa.delete(tables.resource_providers))
            user = connection.scalar(sa.select(sa.func.min(tables.users.c.id)))
            ids = range(10_000, 10_000 + number)
            uuids = {id_: factories.new_uuid() for id_ in ids}
            values = {
                tables.resource_providers: lambda id_: {
                    "id": id_, "uuid": uuids[id_], "name": uuids[id_], "generation": 0,
                    "revision": 0, "root_provider_id": id_},
                tables.projects: lambda id_: {"id": id_, "external_id": f"project-{id_}"},
                tables.inventories: lambda id_: {
                    "resource_provider_id": id_, "resource_class_id": 0, "total": 8, "reserved": 0,
                    "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0,
                    "used": 1, "capacity": 8},
                tables.consumers: lambda id_: {
                    "uuid": uuids[id_], "project_id": id_, "user_id": user, "generation": 1},
                tables.allocations: lambda id_: {
                    "resource_provider_id": id_, "consumer_id": uuids[id_],
                    "resource_class_id": 0, "used": 1, "txn": 1},
                tables.moves: lambda id_: {
                    "consumer_uuid": uuids[id_], "resource_class_id": tables.CONSUMERS_ID,
                    "moved_from": "gone", "project_id": id_, "user_id": user, "used": 0,
                    "revision": 0},
            }
            for table, value in values.items():
                connection.execute(sa.insert(table), [value(id_) for id_ in ids])
            for class_id in (0, tables.CONSUMERS_ID):
                connection.execute(sa.insert(tables.usage_counters), [
                    {"project_id": project, "user_id": whose, "consumer_type_id": tables.UNTYPED,
                     "resource_class_id": class_id, "slot": 0, "used": 1}
                    for id_ in ids
                    for project, whose in ((id_, user), (-id_, tables.EVERYBODY))])
        with self.database.autocommit.connect() as connection:
            if self.kind == "mysql":
                for table in tables.metadata.tables:
                    if table in ("moves", "usage_counters", "allocations", "inventories",
                                 "consumers", "projects", "resource_providers"):
                        connection.exec_driver_sql(f"ANALYZE TABLE {table}")
            else:
                connection.exec_driver_sql("ANALYZE")
