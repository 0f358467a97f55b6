import random
import threading

from placement_core import db
from placement_core.placement import allocations, errors, inventories, providers, traits
from placement_core.placement.allocations import reshaper
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import audit
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement import claims
from tests.functional.placement.races import processes


@databases.on_each_database
class TestStorms(claims.ClaimsTestCase):
    """Everything at once on a few providers; in the end the audit finds nothing."""

    def setUp(self):
        super().setUp()
        # Each round trip costs a few hundred of them; losing 30 races in a row
        # would still be a defect.
        self.database.retries = 30
        #: Half of the writers group their writes, as those of one process do.
        self.queue = allocations.WriteQueue(8)

    def test_claims_in_opposite_order(self):
        left, right = self.provider(VCPU=500), self.provider(VCPU=500)

        def play(number):
            ctx = self.context()
            order = [left, right] if number % 2 else [right, left]
            queue = self.queue if number % 4 < 2 else None
            for _ in range(6):
                first, second = factories.new_uuid(), factories.new_uuid()
                allocations.replace(ctx, [
                    self.write({host: {"VCPU": 1} for host in order}, consumer=first),
                    self.write({host: {"VCPU": 1} for host in reversed(order)},
                               consumer=second)], queue=queue)
                allocations.delete(ctx, second, queue=queue)

        outcomes = races.run(*(lambda number=number: play(number) for number in range(8)))
        self.assertEqual([None] * 8, outcomes)
        self.assertEqual(({"VCPU": 48}, {"VCPU": 48}), (self.used(left), self.used(right)))

    def test_consumers_in_opposite_order(self):
        host = self.provider(VCPU=500)
        shared = [factories.new_uuid() for _ in range(3)]

        def play(number):
            ctx = self.context()
            order = shared if number % 2 else shared[::-1]
            for amount in range(1, 7):
                allocations.replace(ctx, [
                    self.write({host: {"VCPU": amount}}, consumer=consumer)
                    for consumer in order])

        outcomes = races.run(*(lambda number=number: play(number) for number in range(6)))
        self.assertEqual([None] * 6, outcomes)
        self.assertEqual({36}, {self.generation(consumer) for consumer in shared})

    def test_everything_at_once(self):
        hosts = [self.provider(VCPU=60, MEMORY_MB=600) for _ in range(3)]
        child = factories.provider(self.ctx, parent=hosts[0], inventory={"VGPU": 8})
        consumers = [factories.new_uuid() for _ in range(10)]
        expected = (errors.ConsumerGenerationConflict, errors.CannotAllocate,
                    errors.NoAllocations, errors.InventoryInUse,
                    errors.ProviderGenerationConflict)
        unexpected = []

        def claim(ctx, chance):
            chosen = chance.sample(hosts, chance.randint(1, 3))
            chance.shuffle(chosen)
            held = {host: {"VCPU": chance.randint(1, 9), "MEMORY_MB": 10} for host in chosen}
            if chance.random() < 0.3:
                held[child] = {"VGPU": 1}
            allocations.replace(ctx, [
                self.write(held, consumer=consumer, project=f"p{chance.randint(1, 3)}",
                           kind=chance.choice(["INSTANCE", "MIGRATION", None]))
                for consumer in chance.sample(consumers, chance.randint(1, 2))],
                queue=chance.choice([self.queue, None]))

        def delete(ctx, chance):
            allocations.delete(ctx, chance.choice(consumers),
                               queue=chance.choice([self.queue, None]))

        def empty(ctx, chance):
            allocations.replace(ctx, [self.write({}, consumer=chance.choice(consumers))],
                                queue=chance.choice([self.queue, None]))

        def resize(ctx, chance):
            host = chance.choice(hosts)
            found = inventories.list_(ctx, host.uuid)
            inventories.replace(ctx, host.uuid, {
                "VCPU": InventoryValues(chance.randint(10, 60)),
                "MEMORY_MB": InventoryValues(600)},
                generation=found.generation, allow_fully_reserved=True)

        def reshape(ctx, chance):
            uuid = chance.choice([hosts[0], child]).uuid
            found = inventories.list_(ctx, uuid)
            reshaper.reshape(ctx, {uuid: (found.generation, {
                item.resource_class: item.values for item in found.inventories})}, [
                self.write({child: {"VGPU": 2}}, consumer=chance.choice(consumers))])

        def tag(ctx, chance):
            uuid = chance.choice(hosts).uuid
            traits.replace_for_provider(
                ctx, uuid, chance.sample(["HW_CPU_X86_VMX", "HW_CPU_X86_SVM"], 1),
                generation=providers.get(ctx, uuid).generation)

        def repair(ctx, chance):
            found = audit.audit(ctx, repair=True)
            if found:
                unexpected.append(found)

        turns = [claim, claim, claim, delete, empty, resize, reshape, tag, repair]

        def play(seed):
            ctx, chance = self.context(), random.Random(seed)
            for _ in range(20):
                try:
                    chance.choice(turns)(ctx, chance)
                except expected:
                    pass
                except Exception as error:
                    unexpected.append(error)

        races.run(*(lambda seed=seed: play(seed) for seed in range(8)))
        self.assertEqual([], unexpected)

    def test_readers_see_whole_writes(self):
        """A consumer moves to and fro; no reader sees it twice, or not at all."""
        left, right = self.provider(VCPU=5), self.provider(VCPU=5)
        self.claim({left: {"VCPU": 5}})
        done = threading.Event()
        seen = []

        def read():
            ctx = self.context()
            while not done.is_set():
                with db.read(ctx):
                    found = [allocations.list_for_provider(ctx, host.uuid)
                             for host in (left, right)]
                seen.append(sum(len(item.consumers) for item in found))

        def write():
            ctx = self.context()
            try:
                for turn in range(30):
                    self.claim({(right, left)[turn % 2]: {"VCPU": 5}}, ctx=ctx)
            finally:
                done.set()

        self.assertEqual([None] * 3, races.run(write, read, read))
        self.assertEqual({1}, set(seen))


@databases.on_each_database
class TestKilledWriters(claims.ClaimsTestCase):

    def test_an_acknowledged_write_survives_its_writer(self):
        hosts = [self.provider(VCPU=10000, MEMORY_MB=10000) for _ in range(2)]
        acknowledged = {}
        for _ in range(2):
            process = processes.Process(
                processes.write_until_killed, self.database, threads=4,
                providers=[host.uuid for host in hosts])
            self.addCleanup(process.kill)
            process.ready()
            process.start()
            for _ in range(25):
                line = process.line()
                acknowledged[line["consumer"]] = line
            process.kill()
            for line in process.finish():
                acknowledged[line["consumer"]] = line
        # A COMMIT that the dead left in the server's ears holds these providers.
        self.claim({host: {"VCPU": 1, "MEMORY_MB": 1} for host in hosts})
        for consumer, line in acknowledged.items():
            found = allocations.list_for_consumer(self.ctx, consumer)
            # The one write that was under way may have been made as well.
            self.assertIn(found.generation - line["generation"], (0, 1))
            if found.generation == line["generation"]:
                amount = line["amount"]
                self.assertEqual({line["provider"]: {"VCPU": amount, "MEMORY_MB": amount}},
                                 self.held(consumer))
        for host in hosts:
            held = allocations.list_for_provider(self.ctx, host.uuid).consumers.values()
            for name in ("VCPU", "MEMORY_MB"):
                self.assertEqual(self.used(host)[name],
                                 sum(share.resources[name] for share in held))

    def test_groups_of_a_killed_process_are_whole(self):
        """Of each group all writes are there or none; what was acknowledged is there."""
        hosts = [self.provider(VCPU=10000) for _ in range(2)]
        for stops_in in (None, 3):
            lines = self.kill_in_groups(hosts, stops_in)
            # A COMMIT that the dead left in the server's ears holds these providers.
            self.claim({host: {"VCPU": 1} for host in hosts})
            begun, acknowledged = (
                self.find_newest(lines, word) for word in ("begun", "acknowledged"))
            for consumer, generation in begun.items():
                found = self.generation(consumer) or 0
                # The one write that was under way may have been made as well.
                self.assertIn(found, (acknowledged.get(consumer, 0), generation))
                self.assertEqual({host.uuid: {"VCPU": found} for host in hosts} if found else {},
                                 self.held(consumer))
            #: {write: the last transaction in which it was about to be committed}
            tried = {}
            for line in lines:
                for member in (*line.get("transaction", ()), *line.get("stopped", ())):
                    tried[member] = line
            groups = [members for line in lines for members in line.values()
                      if line.keys() <= {"transaction", "stopped"} and len(members) > 1
                      and all(tried[member] is line for member in members)]
            self.assertGreater(len(groups), 1)
            made = [{(self.generation(consumer) or 0) >= generation
                     for consumer, generation in members} for members in groups]
            self.assertEqual({1}, set(map(len, made)), groups)
            if stops_in:
                [stopped] = [line["stopped"] for line in lines if "stopped" in line]
                self.assertEqual({False}, made[groups.index(stopped)])

    def kill_in_groups(self, hosts, stops_in):
        """Kill a process that writes in groups; return all that it has said.

        :param stops_in: the group in whose middle it is killed; None: anywhere, after a while.
        """
        process = processes.Process(
            processes.write_in_groups_until_killed, self.database, threads=6,
            providers=[host.uuid for host in hosts], stops_in=stops_in)
        self.addCleanup(process.kill)
        process.ready()
        process.start()
        lines, groups, acknowledged, is_time = [], 0, 0, False
        while not is_time:
            line = process.line()
            if line is None:
                raise AssertionError("the process ended before it was killed")
            lines.append(line)
            groups += len(line.get("transaction", ())) > 1
            acknowledged += "acknowledged" in line
            is_time = "stopped" in line or (
                stops_in is None and groups > 4 and acknowledged > 24)
        process.kill()
        return lines + process.finish()

    @staticmethod
    def find_newest(lines, word):
        """Return {consumer: the highest generation of which it is said}."""
        newest = {}
        for line in lines:
            if word in line:
                consumer, generation = line[word]
                newest[consumer] = max(generation, newest.get(consumer, 0))
        return newest
